// Misuse of NCCL ends in a sentence that names both sides, in every order of the queued work.
#include "nccl_double.hpp"

#include <atomic>

namespace {

using namespace double_test;
using Ints = std::vector<int>;

/// Two ranks, each with three ints.
class NcclMisuse : public Double {
protected:
    /// The sentence that f(ranks, memories) ends in, the same in every order of the work where it
    /// does not say which came first.
    template <class F>
    static std::string sentence(F f) {
        std::string last;
        in_every_order([&] {
            last = sentence_of([&] {
                Ranks a(2);
                const auto x = a.each([](int r) { return Ints{r, r, r}; });
                f(a, x);
            });
            EXPECT_FALSE(last.empty());
        });
        return last;
    }
    static ncclResult_t sum(Ranks& a, int r, int* x, std::size_t n = 1) {
        return ncclAllReduce(x, x, n, ncclInt, ncclSum, a.comm(r), a.stream(r));
    }
};
TEST_F(NcclMisuse, MessagesOfOtherCounts) {
    const auto s = sentence([](Ranks& a, auto& x) {
        ok(ncclSend(x[0], 2, ncclInt, 1, a.comm(0), a.stream(0)));
        ok(ncclRecv(x[1], 3, ncclInt, 0, a.comm(1), a.stream(1)));
        a.wait();
    });
    expect_has(s, "rank 0 of communicator 1 sends 2 x ncclInt32 to rank 1");
    expect_has(s, "receives 3 x ncclInt32");
}
TEST_F(NcclMisuse, ArgumentsOfNoCall) {
    const auto of = [](std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
        return sentence([=](Ranks& a, auto& x) {
            ok(ncclAllReduce(x[0], x[0], count, type, op, a.comm(0), a.stream(0)));
        });
    };
    expect_has(of(1, ncclNumTypes, ncclSum), ", which is no type");
    expect_has(of(1, ncclInt, ncclNumOps), ": the double has five");
    expect_has(of(1, ncclFloat8e4m3, ncclSum), ": the double cannot sum these");
    expect_has(of(SIZE_MAX / 2, ncclInt, ncclSum), " elements.");
}
TEST_F(NcclMisuse, MessagesOfOtherTypes) {
    const auto s = sentence([](Ranks& a, auto& x) {
        ok(ncclSend(x[0], 2, ncclInt, 1, a.comm(0), a.stream(0)));
        ok(ncclRecv(x[1], 2, ncclFloat, 0, a.comm(1), a.stream(1)));
        a.wait();
    });
    expect_has(s, "sends 2 x ncclInt32");
    expect_has(s, "receives 2 x ncclFloat32");
}
TEST_F(NcclMisuse, PeersOutOfRange) {
    for (const int peer : {-1, 2})
        expect_has(sentence([&](Ranks& a, auto& x) {
                       ok(ncclSend(x[0], 1, ncclInt, peer, a.comm(0), a.stream(0)));
                   }),
                   "ncclSend by rank 0 of communicator 1 with peer " + std::to_string(peer) +
                       ", and there are 2 ranks");
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclBroadcast(x[0], x[0], 1, ncclInt, 2, a.comm(0), a.stream(0)));
               }),
               "with root 2");
}
TEST_F(NcclMisuse, CollectivesInAnotherOrder) {
    const auto s = sentence([](Ranks& a, auto& x) {
        ok(sum(a, 0, x[0]));
        ok(ncclBroadcast(x[0], x[0], 1, ncclInt, 0, a.comm(0), a.stream(0)));
        ok(ncclBroadcast(x[1], x[1], 1, ncclInt, 0, a.comm(1), a.stream(1)));
        ok(sum(a, 1, x[1]));
        a.wait();
    });
    expect_has(s, "collective 1 of communicator 1 is");
    expect_has(s, "ncclAllReduce of 1 x ncclInt32 (ncclSum) on rank 0");
    expect_has(s, "ncclBroadcast of 1 x ncclInt32 from rank 0 on rank 1");
}
TEST_F(NcclMisuse, CollectivesOfOtherCountsTypesOperationsAndRoots) {
    const auto differ = [](auto first, auto second) {
        return sentence([&](Ranks& a, auto& x) {
            ok(first(a, 0, x[0]));
            ok(second(a, 1, x[1]));
            a.wait();
        });
    };
    const auto with = [](std::size_t n, ncclDataType_t type, ncclRedOp_t op) {
        return [=](Ranks& a, int r, int* x) {
            return ncclAllReduce(x, x, n, type, op, a.comm(r), a.stream(r));
        };
    };
    const auto from = [](int root) {
        return [=](Ranks& a, int r, int* x) {
            return ncclBroadcast(x, x, 1, ncclInt, root, a.comm(r), a.stream(r));
        };
    };
    expect_has(differ(with(1, ncclInt, ncclSum), with(2, ncclInt, ncclSum)), "2 x ncclInt32");
    expect_has(differ(with(1, ncclInt, ncclSum), with(1, ncclFloat, ncclSum)), "1 x ncclFloat32");
    expect_has(differ(with(1, ncclInt, ncclSum), with(1, ncclInt, ncclMin)), "(ncclMin)");
    expect_has(differ(from(0), from(1)), "from rank 1 on rank 1");
}
TEST_F(NcclMisuse, UnequalGroups) {
    const auto s = sentence([](Ranks& a, auto& x) {
        ok(ncclGroupStart());
        for (int i = 0; i < 2; ++i) ok(sum(a, 0, x[0] + i));
        ok(ncclGroupEnd());
        for (int i = 0; i < 2; ++i) ok(sum(a, 1, x[1] + i));
        a.wait();
    });
    expect_has(s, "in a group of 2 on rank 0");
    expect_has(s, "in a group of 1 on rank 1");
}
TEST_F(NcclMisuse, MessagesThatNeedAGroup) {
    const auto s = sentence([](Ranks& a, auto& x) {
        for (int r = 0; r < 2; ++r)
            ok(ncclSend(x[std::size_t(r)], 1, ncclInt, 1 - r, a.comm(r), a.stream(r)));
        for (int r = 0; r < 2; ++r)
            ok(ncclRecv(x[std::size_t(r)] + 1, 1, ncclInt, 1 - r, a.comm(r), a.stream(r)));
        a.wait();
    });
    expect_has(s, "deadlock: cudaStreamSynchronize waits");
    expect_has(s, "'ncclSend by rank 0 of communicator 1', which waits for a receive by rank 1");
    expect_has(s, "'ncclSend by rank 1 of communicator 1', which waits for a receive by rank 0");
}
TEST_F(NcclMisuse, ARankThatDoesNotCall) {
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(sum(a, 0, x[0]));
                   a.wait();
               }),
               "which waits for ncclAllReduce by rank 1");
}
TEST_F(NcclMisuse, AGroupThatIsLeftOpen) {
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclGroupStart());
                   ok(sum(a, 0, x[0]));
                   expect_clean();
               }),
               "a group was not ended");
    expect_has(sentence([](Ranks&, auto&) { ok(ncclGroupEnd()); }),
               "ncclGroupEnd without ncclGroupStart");
}
TEST_F(NcclMisuse, BuffersThatOverlapInAGroup) {
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclGroupStart());
                   ok(ncclSend(x[0], 2, ncclInt, 1, a.comm(0), a.stream(0)));
                   ok(ncclRecv(x[0] + 1, 2, ncclInt, 1, a.comm(0), a.stream(0)));
                   ok(ncclGroupEnd());
               }),
               "ncclRecv writes what ncclSend of the same group reads");
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclGroupStart());
                   for (int i = 0; i < 2; ++i)
                       ok(ncclRecv(x[0], 2, ncclInt, 1, a.comm(0), a.stream(0)));
                   ok(ncclGroupEnd());
               }),
               "ncclRecv writes what ncclRecv of the same group writes");
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclAllReduce(x[0], x[0] + 1, 2, ncclInt, ncclSum, a.comm(0), a.stream(0)));
               }),
               "ncclAllReduce writes a part of what it reads");
    expect_has(sentence([](Ranks& a, auto& x) {  // rank 0's block is the first
                   ok(ncclAllGather(x[0] + 1, x[0], 1, ncclInt, a.comm(0), a.stream(0)));
               }),
               "ncclAllGather writes a part of what it reads");
}

// ---- Memory ----------------------------------------------------------------------------------

TEST_F(NcclMisuse, MemoryOfAnotherPlace) {
    const auto with = [](auto make) {
        return sentence([&](Ranks& a, auto& x) {
            ok(ncclSend(make(a, x), 1, ncclInt, 1, a.comm(0), a.stream(0)));
        });
    };
    expect_has(with([](Ranks&, auto& x) { return x[1]; }), "of device 1");
    expect_has(with([](Ranks&, auto&) { return pinned_memory<int>(1); }),
               "ncclSend by rank 0 of communicator 1 reads pinned memory 1");
    static int here = 0;
    expect_has(with([](Ranks&, auto&) { return &here; }),
               "memory that the runtime did not allocate");
    expect_has(with([](Ranks&, auto& x) { return x[0] + 3; }), "bytes 12 to 16");
    expect_has(with([](Ranks&, auto& x) {
                   ok(cudaFree(x[0]));
                   return x[0];
               }),
               "which cudaFree freed");
    expect_has(with([](Ranks&, auto&) { return static_cast<int*>(nullptr); }), "a null pointer");
}
TEST_F(NcclMisuse, MemoryThatIsFreedWhileItIsUsed) {
    start({.progress = StreamProgress::late});
    const auto s = sentence_of([] {
        Ranks a(2);
        int* const x = a.memory<int>(0, {1});
        ok(ncclSend(x, 1, ncclInt, 1, a.comm(0), a.stream(0)));
        ok(cudaFree(x));
    });
    expect_has(s, "cudaFree of device memory 1 of device 0 (4 bytes) while 'ncclSend by rank 0");
}
TEST_F(NcclMisuse, AStreamOfAnotherDevice) {
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclSend(x[0], 1, ncclInt, 1, a.comm(0), a.stream(1)));
               }),
               "rank 0 of communicator 1, of device 0, in stream 2 of device 1");
}
TEST_F(NcclMisuse, AMissingWaitBeforeAndBehindAKernel) {
    const auto with = [](auto before, auto behind) {
        return sentence([&](Ranks& a, auto& x) {
            ok(cudaSetDevice(1));
            const cudaStream_t other = new_stream();
            before(x[1], other);
            ok(ncclSend(x[0], 1, ncclInt, 1, a.comm(0), a.stream(0)));
            ok(ncclRecv(x[1], 1, ncclInt, 0, a.comm(1), a.stream(1)));
            behind(x[1], other);
            a.wait();
            ok(cudaStreamSynchronize(other));
        });
    };
    const auto nothing = [](int*, cudaStream_t) {};
    const auto uses = [](int* x, cudaStream_t s) { add(x, 1, s, "use"); };
    for (const auto& s : {with(nothing, uses), with(uses, nothing)}) {
        expect_has(s, "race: ");
        expect_has(s, "ncclRecv by rank 1 of communicator 1");
        expect_has(s, "use");
    }
}
/// What a send reads is read until its end, and not only when it begins.
TEST_F(NcclMisuse, AWriteToWhatIsSent) {
    const auto s = sentence([](Ranks& a, auto& x) {
        ok(cudaSetDevice(0));
        const cudaStream_t other = new_stream();
        ok(ncclSend(x[0], 1, ncclInt, 1, a.comm(0), a.stream(0)));
        ok(ncclRecv(x[1], 1, ncclInt, 0, a.comm(1), a.stream(1)));
        add(x[0], 1, other, "overwrite");
        a.wait();
        ok(cudaStreamSynchronize(other));
    });
    expect_has(s, "race: ");
    expect_has(s, "overwrite");
}
/// The end of a send says nothing of what its receiver did before.
TEST_F(NcclMisuse, ASendDoesNotWaitForWhatItsReceiverDidBefore) {
    const auto s = sentence([](Ranks& a, auto& x) {
        int* const shared = pinned_memory<int>(1);
        copy(shared, x[1], 1, a.stream(1));
        ok(ncclRecv(x[1] + 1, 1, ncclInt, 0, a.comm(1), a.stream(1)));
        ok(ncclSend(x[0] + 1, 1, ncclInt, 1, a.comm(0), a.stream(0)));
        copy(x[0], shared, 1, a.stream(0));
        a.wait();
    });
    expect_has(s, "race: ");
}

// ---- Communicators ---------------------------------------------------------------------------

TEST_F(NcclMisuse, ACommunicatorThatWasEnded) {
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclCommDestroy(a.comm(0)));
                   ok(sum(a, 0, x[0]));
               }),
               "ncclAllReduce: rank 0 of communicator 1 was ended by ncclCommDestroy");
    expect_has(sentence([](Ranks& a, auto&) {
                   ok(ncclCommAbort(a.comm(0)));
                   ok(ncclCommDestroy(a.comm(0)));
               }),
               "was ended by ncclCommAbort");
    expect_has(sentence([](Ranks& a, auto& x) {
                   ok(ncclCommFinalize(a.comm(0)));
                   ok(sum(a, 0, x[0]));
               }),
               "was finalized");
    expect_has(sentence([](Ranks& a, auto&) {
                   ncclComm_t const before = a.comm(0);
                   start({});
                   int count = 0;
                   ok(ncclCommCount(before, &count));
               }),
               "never made, or before the last reset");
}
TEST_F(NcclMisuse, ACommunicatorThatIsNotReleased) {
    expect_has(sentence([](Ranks& a, auto&) {
                   ok(ncclCommDestroy(a.comm(0)));
                   a.release();
                   expect_clean();
               }),
               "not released: rank 1 of communicator 1");
}
TEST_F(NcclMisuse, ACommunicatorInTwoThreads) {
    expect_has(
        sentence([](Ranks& a, auto& x) {
            ok(ncclGroupStart());
            ok(sum(a, 0, x[0]));
            std::exception_ptr error;
            std::thread([&] {
                try {
                    ok(sum(a, 0, x[0] + 1));
                } catch (...) {
                    error = std::current_exception();
                }
            }).join();
            if (error) std::rethrow_exception(error);
        }),
        "ncclAllReduce of rank 0 of communicator 1 while another thread is inside of a group");
}
TEST_F(NcclMisuse, TwoCommunicatorsThatWaitForEachOther) {
    std::string found;
    for (std::uint64_t seed = 1; seed <= 20 && found.empty(); ++seed) {
        start({.seed = seed});
        found = sentence_of([] {
            Ranks a(2), b(2);
            const auto x = a.each([](int) { return Ints{1, 1}; });
            for (int r = 0; r < 2; ++r) {
                ok(sum(a, r, x[std::size_t(r)]));
                ok(sum(b, r, x[std::size_t(r)] + 1));
            }
            a.wait();
            b.wait();
        });
    }
    expect_has(found, "deadlock: ");
    expect_has(found, "of communicator 1");
    expect_has(found, "of communicator 2");
}
TEST_F(NcclMisuse, TwoCommunicatorsInOneOrderOrInAGpuThatHoldsBothDoNotWait) {
    for (const bool ordered : {true, false})
        in_every_order([&] {
            if (!ordered) set_options({.one_kernel_at_a_time = false});
            Ranks a(2), b(2);
            const auto x = a.each([](int) { return Ints{1, 1}; });
            for (int r = 0; r < 2; ++r) {
                auto& second = ordered ? a : b;
                ok(sum(a, r, x[std::size_t(r)]));
                ok(ncclAllReduce(x[std::size_t(r)] + 1, x[std::size_t(r)] + 1, 1, ncclInt, ncclSum,
                                 b.comm(r), second.stream(r)));
            }
            a.wait();
            b.wait();
            EXPECT_EQ(a.read(x[1], 2), (Ints{2, 2}));
            for (int r = 0; r < 2; ++r) ok(ncclCommDestroy(b.comm(r)));
            b.release();
            a.destroy();
        });
}

// ---- Captures --------------------------------------------------------------------------------

TEST_F(NcclMisuse, ASplitBesideOutstandingOperations) {
    const auto s = sentence([](Ranks& a, auto& x) {
        ok(sum(a, 0, x[0]));  // it waits for that of rank 1
        ncclComm_t part = nullptr;
        (void)ncclCommSplit(a.comm(0), 0, 0, &part, nullptr);
    });
    expect_has(s,
               "ncclCommSplit by rank 0 of communicator 1 while operations of it are outstanding");
}
TEST_F(NcclMisuse, CallsThatCannotBeCaptured) {
    const auto in_capture = [](auto f) {
        return sentence([&](Ranks& a, auto&) {
            ok(cudaStreamBeginCapture(a.stream(0), cudaStreamCaptureModeThreadLocal));
            f(a);
        });
    };
    ncclComm_t made[2];
    expect_has(in_capture([&](Ranks&) { ok(ncclCommInitAll(made, 2, nullptr)); }),
               "ncclCommInitAll while stream 1 of device 0 is captured");
    expect_has(in_capture([](Ranks& a) { ok(ncclCommDestroy(a.comm(0))); }), "is captured");
    void* memory = nullptr;
    expect_has(in_capture([&](Ranks&) { ok(ncclMemAlloc(&memory, 4)); }), "is captured");
}
TEST_F(NcclMisuse, ACommunicatorThatEndsBeforeWhatHoldsItsKernels) {
    enum Holder { capture, graph, instance };
    const auto ended = [](Holder holder, auto end) {
        return sentence([&](Ranks& a, auto& x) {
            ok(cudaSetDevice(0));
            ok(cudaStreamBeginCapture(a.stream(0), cudaStreamCaptureModeThreadLocal));
            ok(sum(a, 0, x[0]));
            if (holder == capture) return end(a.comm(0));
            cudaGraph_t made{};
            cudaGraphExec_t executable{};
            ok(cudaStreamEndCapture(a.stream(0), &made));
            if (holder == instance) {
                ok(cudaGraphInstantiate(&executable, made, 0));
                ok(cudaGraphDestroy(made));
            }
            end(a.comm(0));
        });
    };
    const auto destroy = [](ncclComm_t c) { ok(ncclCommDestroy(c)); };
    const auto abort = [](ncclComm_t c) { ok(ncclCommAbort(c)); };
    expect_has(ended(graph, destroy), "lies in graph 1. Destroy the graph first.");
    expect_has(ended(instance, destroy),
               "ncclCommDestroy of rank 0 of communicator 1, whose 'ncclAllReduce by rank 0");
    expect_has(ended(capture, abort), "lies in the capture of stream 1 of device 0. End it first.");
    expect_has(ended(graph, abort), "ncclCommAbort of rank 0 of communicator 1, whose 'ncclAll");
    expect_has(ended(instance, abort), "lies in instance 1 of graph 1. Destroy the graph first.");
}

// ---- Memory of NCCL --------------------------------------------------------------------------

TEST_F(NcclMisuse, MemoryAndRegistrationsHavePartners) {
    expect_has(sentence([](Ranks&, auto& x) { ok(ncclMemFree(x[0])); }),
               "ncclMemFree of memory that ncclMemAlloc did not return");
    void* handle = nullptr;
    expect_has(
        sentence([&](Ranks& a, auto& x) { ok(ncclCommRegister(a.comm(0), x[1], 12, &handle)); }),
        "of device 1");
    expect_has(sentence([&](Ranks& a, auto& x) {
                   ok(ncclCommRegister(a.comm(0), x[0], 12, &handle));
                   ok(ncclCommDestroy(a.comm(0)));
               }),
               "1 registered buffers");
    expect_has(sentence([&](Ranks& a, auto& x) {
                   ok(ncclCommRegister(a.comm(0), x[0], 12, &handle));
                   ok(cudaFree(x[0]));
                   ok(ncclCommDeregister(a.comm(0), handle));
               }),
               "Deregister before the memory is freed");
    expect_has(sentence([&](Ranks& a, auto&) { ok(ncclCommDeregister(a.comm(0), nullptr)); }),
               "not registered");
}

}  // namespace
