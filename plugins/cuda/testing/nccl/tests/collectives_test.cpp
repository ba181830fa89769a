// Messages and collectives: what they move and sum, when, and in which order.
#include "nccl_double.hpp"

#include <cmath>  // nextafter
#include <set>

#include <gx/core/element.hpp>

namespace {

using namespace double_test;
using Floats = std::vector<float>;
using Ints = std::vector<int>;

class NcclCollectives : public Double {};

TEST_F(NcclCollectives, PassARingOnWithinAGroup) {
    in_every_order([] {
        Ranks a(3);
        const auto out = a.each([](int r) { return Ints{r, 10 * r}; });
        const auto in = a.each([](int) { return Ints{-1, -1}; });
        ok(ncclGroupStart());
        for (int r = 0; r < 3; ++r) {
            ok(ncclRecv(in[std::size_t(r)], 2, ncclInt, (r + 2) % 3, a.comm(r), a.stream(r)));
            ok(ncclSend(out[std::size_t(r)], 2, ncclInt, (r + 1) % 3, a.comm(r), a.stream(r)));
        }
        ok(ncclGroupEnd());
        a.wait();
        EXPECT_EQ(a.read(in[0], 2), (Ints{2, 20}));
        EXPECT_EQ(a.read(in[1], 2), (Ints{0, 0}));
        EXPECT_EQ(a.read(in[2], 2), (Ints{1, 10}));
        a.destroy();
    });
}

TEST_F(NcclCollectives, TheKthSendMeetsTheKthReceive) {
    in_every_order([] {
        Ranks a(2);
        int* const out = a.memory<int>(0, {1, 2, 3});
        int* const in = a.memory<int>(1, {0, 0, 0});
        for (int i = 0; i < 3; ++i) ok(ncclSend(out + i, 1, ncclInt, 1, a.comm(0), a.stream(0)));
        ok(ncclGroupStart());  // groups need not be alike
        for (const int i : {2, 0}) ok(ncclRecv(in + i, 1, ncclInt, 0, a.comm(1), a.stream(1)));
        ok(ncclGroupEnd());
        ok(ncclRecv(in + 1, 1, ncclInt, 0, a.comm(1), a.stream(1)));
        a.wait();
        EXPECT_EQ(a.read(in, 3), (Ints{2, 3, 1}));
        a.destroy();
    });
}

TEST_F(NcclCollectives, SumInPlaceAndApart) {
    in_every_order([] {
        Ranks a(4);
        const auto x = a.each([](int r) { return Floats{float(r), 1, -2}; });
        const auto y = a.each([](int) { return Floats{0, 0, 0}; });
        a.group([&](int r) {
            const auto i = std::size_t(r);
            return ncclAllReduce(x[i], y[i], 3, ncclFloat, ncclSum, a.comm(r), a.stream(r));
        });
        a.group([&](int r) {
            const auto i = std::size_t(r);
            return ncclAllReduce(y[i], y[i], 3, ncclFloat, ncclMax, a.comm(r), a.stream(r));
        });
        a.group([&](int r) {
            const auto i = std::size_t(r);
            return ncclAllReduce(x[i], x[i], 3, ncclFloat, ncclAvg, a.comm(r), a.stream(r));
        });
        a.wait();
        for (int r = 0; r < 4; ++r) {
            EXPECT_EQ(a.read(y[std::size_t(r)], 3), (Floats{6, 4, -8}));
            EXPECT_EQ(a.read(x[std::size_t(r)], 3), (Floats{1.5f, 1, -2}));
        }
        a.destroy();
    });
}

template <class T>
void sum_numbers_of(ncclDataType_t type) {
    Ranks a(2);
    const auto x = a.each([](int r) { return std::vector<T>{T(r + 1), T(2)}; });
    a.group([&](int r) {
        const auto i = std::size_t(r);
        return ncclAllReduce(x[i], x[i], 2, type, ncclSum, a.comm(r), a.stream(r));
    });
    a.wait();
    for (const T* const sums : x) EXPECT_EQ(a.read(sums, 2), (std::vector<T>{3, 4}));
    a.destroy();
}
TEST_F(NcclCollectives, SumEachTypeOfNumber) {
    in_every_order([] {
        sum_numbers_of<std::int8_t>(ncclInt8);
        sum_numbers_of<std::uint8_t>(ncclUint8);
        sum_numbers_of<std::int32_t>(ncclInt32);
        sum_numbers_of<std::uint32_t>(ncclUint32);
        sum_numbers_of<std::int64_t>(ncclInt64);
        sum_numbers_of<std::uint64_t>(ncclUint64);
        sum_numbers_of<double>(ncclFloat64);
    });
}
TEST_F(NcclCollectives, BroadcastGatherAndScatter) {
    in_every_order([] {
        Ranks a(3);
        const auto x = a.each([](int r) { return Ints{r, r + 10, r + 20}; });
        const auto y = a.each([](int) { return Ints{0, 0, 0}; });
        a.group([&](int r) {  // rank r's block is x[r]: in place
            const auto i = std::size_t(r);
            return ncclReduceScatter(x[i], x[i] + r, 1, ncclInt, ncclSum, a.comm(r), a.stream(r));
        });
        a.group([&](int r) {
            const auto i = std::size_t(r);
            return ncclAllGather(x[i] + r, y[i], 1, ncclInt, a.comm(r), a.stream(r));
        });
        a.group([&](int r) {
            const auto i = std::size_t(r);
            return ncclBroadcast(r == 2 ? y[i] + 1 : nullptr, x[i], 2, ncclInt, 2, a.comm(r),
                                 a.stream(r));
        });
        a.wait();
        for (int r = 0; r < 3; ++r) {
            EXPECT_EQ(a.read(y[std::size_t(r)], 3), (Ints{3, 33, 63}));
            EXPECT_EQ(a.read(x[std::size_t(r)], 2), (Ints{33, 63}));
        }
        a.destroy();
    });
}

TEST_F(NcclCollectives, RoundSumsToTheirElement) {
    using gx::bf16, gx::fp16;
    Ranks a(2);
    const auto x = a.each(
        [](int r) { return std::vector<fp16::storage>{fp16::encode(r == 0 ? 2048.0f : 1.0f)}; });
    const auto y = a.each([](int) { return std::vector<bf16::storage>{bf16::encode(1.5f)}; });
    a.group([&](int r) {
        const auto i = std::size_t(r);
        return ncclAllReduce(x[i], x[i], 1, ncclHalf, ncclSum, a.comm(r), a.stream(r));
    });
    a.group([&](int r) {
        const auto i = std::size_t(r);
        return ncclAllReduce(y[i], y[i], 1, ncclBfloat16, ncclProd, a.comm(r), a.stream(r));
    });
    a.wait();
    EXPECT_EQ(fp16::decode(a.read(x[1], 1)[0]), 2048.0f);
    EXPECT_EQ(bf16::decode(a.read(y[1], 1)[0]), 2.25f);
    a.destroy();
}

/// The average of `value` on all ranks, 64 times.
template <class S>
std::vector<S> averages(S value, ncclDataType_t type, int ranks = 2) {
    Ranks a(ranks);
    const auto x = a.each([&](int) { return std::vector<S>(64, value); });
    a.group([&](int r) {
        const auto i = std::size_t(r);
        return ncclAllReduce(x[i], x[i], 64, type, ncclAvg, a.comm(r), a.stream(r));
    });
    a.wait();
    const auto result = a.read(x[1], 64);
    a.destroy();
    return result;
}
/// A sum that leaves the type's range is no average that does.
TEST_F(NcclCollectives, AverageFloatsByAFactorBeforeTheyAdd) {
    using gx::bf16, gx::fp16;
    in_every_order([] {
        const auto expect_kept = [](auto value, ncclDataType_t type) {
            EXPECT_EQ(averages(value, type), std::vector(64, value));
        };
        expect_kept(fp16::encode(60000), ncclHalf);
        expect_kept(bf16::encode(3e38f), ncclBfloat16);
        expect_kept(3e38f, ncclFloat);
        expect_kept(1.5e308, ncclDouble);
        EXPECT_EQ(averages(7.0f, ncclFloat, 3), Floats(64, std::nextafter(7.0f, 8.0f)))
            << "a third is rounded";
        EXPECT_EQ(averages(std::int8_t{100}, ncclInt8), (std::vector<std::int8_t>(64, -28)))
            << "integers are divided behind the sum, which wraps";
    });
    const auto tiny = averages(fp16::storage{1}, ncclHalf);
    EXPECT_EQ(std::set(tiny.begin(), tiny.end()), (std::set<fp16::storage>{0, 1}))
        << "half of 2^-24 is 0 where products are rounded";
}

/// NCCL promises no order of sums: seeds give different bits, and ranks never do.
TEST_F(NcclCollectives, SumInAnOrderOfTheirOwn) {
    std::set<Floats> results;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        start({.seed = seed});
        Ranks a(4);
        const Floats values{1e8f, 1.0f, -1e8f, 0.5f};
        const auto x = a.each([&](int r) { return Floats(8, values[std::size_t(r)]); });
        a.group([&](int r) {
            const auto i = std::size_t(r);
            return ncclAllReduce(x[i], x[i], 8, ncclFloat, ncclSum, a.comm(r), a.stream(r));
        });
        a.wait();
        const Floats sum = a.read(x[0], 8);
        for (int r = 1; r < 4; ++r) EXPECT_EQ(a.read(x[std::size_t(r)], 8), sum);
        results.insert(sum);
        a.destroy();
    }
    EXPECT_GT(results.size(), 3u);
}

TEST_F(NcclCollectives, RunLate) {
    start({.progress = StreamProgress::late});
    Ranks a(2);
    int* const out = a.memory<int>(0, {1});
    int* const in = a.memory<int>(1, {0});
    const auto mark = gx::nccl_testing::counters();
    ok(ncclSend(out, 1, ncclInt, 1, a.comm(0), a.stream(0)));
    ok(ncclRecv(in, 1, ncclInt, 0, a.comm(1), a.stream(1)));
    EXPECT_EQ(gx::nccl_testing::counters(), mark);
    a.wait();
    const auto done = gx::nccl_testing::counters() - mark;
    EXPECT_EQ(done.kernels, 2);
    EXPECT_EQ(done.sends, 1);
    EXPECT_EQ(done.sent_bytes, 4);
    a.destroy();
}

/// "Mixing Multiple Streams within the same ncclGroupStart/End() group".
TEST_F(NcclCollectives, AGroupOverTwoStreamsWaitsForBothAndBothForIt) {
    in_every_order([] {
        Ranks a(2);
        int* const x = a.memory<int>(0, {1, 2});
        int* const y = a.memory<int>(1, {0, 0});
        ok(cudaSetDevice(0));
        const cudaStream_t second = new_stream();
        add(x, 10, a.stream(0));
        add(x + 1, 20, second);
        ok(ncclGroupStart());
        ok(ncclSend(x, 1, ncclInt, 1, a.comm(0), a.stream(0)));
        ok(ncclSend(x + 1, 1, ncclInt, 1, a.comm(0), second));
        ok(ncclRecv(y, 1, ncclInt, 0, a.comm(1), a.stream(1)));
        ok(ncclRecv(y + 1, 1, ncclInt, 0, a.comm(1), a.stream(1)));
        ok(ncclGroupEnd());
        add(x, 1, second);  // behind the kernel, so behind the first stream's send
        a.wait();
        ok(cudaStreamSynchronize(second));
        EXPECT_EQ(a.read(y, 2), (Ints{11, 22}));
        ok(cudaStreamDestroy(second));
        a.destroy();
    });
}

/// A message orders what its sender did before it and its receiver does behind it.
TEST_F(NcclCollectives, AMessageOrdersTheRanks) {
    in_every_order([] {
        Ranks a(2);
        int* const token = a.memory<int>(0, {7});
        int* const got = a.memory<int>(1, {0});
        int* const shared = pinned_memory<int>(1);
        *shared = 1;
        int* const mine = a.memory<int>(1, {0});
        int* const from = a.memory<int>(0, {42});
        copy(shared, from, 1, a.stream(0));
        ok(ncclSend(token, 1, ncclInt, 1, a.comm(0), a.stream(0)));
        ok(ncclRecv(got, 1, ncclInt, 0, a.comm(1), a.stream(1)));
        copy(mine, shared, 1, a.stream(1));
        a.wait();
        EXPECT_EQ(a.read(mine, 1), Ints{42});
        ok(cudaFreeHost(shared));
        a.destroy();
    });
}

TEST_F(NcclCollectives, AreCapturedAndRunAtEachLaunch) {
    in_every_order([] {
        Ranks a(2);
        const auto x = a.each([](int r) { return Ints{r + 1}; });
        std::vector<cudaGraphExec_t> graphs(2);
        for (int r = 0; r < 2; ++r) {
            ok(cudaSetDevice(r));
            ok(cudaStreamBeginCapture(a.stream(r), cudaStreamCaptureModeThreadLocal));
            const auto i = std::size_t(r);
            ok(ncclAllReduce(x[i], x[i], 1, ncclInt, ncclSum, a.comm(r), a.stream(r)));
            cudaGraph_t graph{};
            ok(cudaStreamEndCapture(a.stream(r), &graph));
            ok(cudaGraphInstantiate(&graphs[i], graph, 0));
            ok(cudaGraphDestroy(graph));
        }
        for (int t = 0; t < 3; ++t)
            for (int r = 0; r < 2; ++r) {
                ok(cudaSetDevice(r));
                ok(cudaGraphLaunch(graphs[std::size_t(r)], a.stream(r)));
            }
        a.wait();
        EXPECT_EQ(a.read(x[0], 1), Ints{12}) << "3, 6, 12";
        EXPECT_EQ(a.read(x[1], 1), Ints{12});
        for (const cudaGraphExec_t g : graphs) ok(cudaGraphExecDestroy(g));
        a.destroy();
    });
}

/// Ranks as threads, each with its device, as a program has them.
TEST_F(NcclCollectives, GoFromAThreadEach) {
    in_every_order([] {
        ncclUniqueId id;
        ok(ncclGetUniqueId(&id));
        std::vector<int> sums(4);
        const auto rank = [&](int r) {
            ok(cudaSetDevice(r));
            ncclComm_t comm{};
            ok(ncclCommInitRank(&comm, 4, id, r));
            const cudaStream_t s = new_stream();
            int* const x = device_memory(1);
            ok(cudaMemcpy(x, &r, 4, cudaMemcpyHostToDevice));
            ok(cudaStreamSynchronize(nullptr));
            for (int t = 0; t < 3; ++t) ok(ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, s));
            ok(cudaStreamSynchronize(s));
            ok(cudaMemcpy(&sums[std::size_t(r)], x, 4, cudaMemcpyDeviceToHost));
            ok(ncclCommFinalize(comm));
            ok(ncclCommDestroy(comm));
            ok(cudaFree(x));
            ok(cudaStreamDestroy(s));
        };
        std::vector<std::thread> others;
        for (int r = 1; r < 4; ++r) others.emplace_back(rank, r);
        rank(0);
        for (auto& t : others) t.join();
        EXPECT_EQ(sums, Ints(4, 96));
        expect_clean();
    });
}

}  // namespace
