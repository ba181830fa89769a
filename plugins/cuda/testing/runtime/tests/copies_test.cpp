// Synchronous copies and sets: what the host waits for, and what it does not.
#include "double.hpp"

#include <numeric>

namespace {

using namespace double_test;

class Copies : public Double {
protected:
    static std::vector<int> numbers(int first, std::size_t count = 4) {
        std::vector<int> v(count);
        std::iota(v.begin(), v.end(), first);
        return v;
    }
    static void expect_race(const std::string& text, const std::string& part) {
        EXPECT_EQ(text.find("race: "), 0u) << text;
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
};

// ---- cudaMemcpy --------------------------------------------------------------------------------

TEST_F(Copies, OfNullPointersAndInNoDirection) {
    int *const x = device_memory(4), *const p = pinned_memory(4), *const none = nullptr;
    const cudaStream_t s = new_stream();
    constexpr auto in = cudaMemcpyHostToDevice, out = cudaMemcpyDeviceToHost;
    EXPECT_EQ(cudaMemcpy(none, p, 16, in), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(none, x, 16, out), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpyAsync(x, none, 16, in, s), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpyPeer(x, 0, none, 1, 16), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemset(none, 0, 16), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemsetAsync(none, 0, 16, s), cudaErrorInvalidValue);
    ok(cudaMemcpyAsync(none, none, 0, in, s));
    constexpr auto no_direction = static_cast<cudaMemcpyKind>(5);
    EXPECT_EQ(cudaMemcpy(x, p, 16, no_direction), cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaMemcpyAsync(x, p, 16, no_direction, s), cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(counters().copies + counters().sets, 0);
}
TEST_F(Copies, FromPageableMemoryAreStaged) {
    in_every_order([] {
        int* const x = device_memory(4);
        std::vector<int> mine = numbers(5), back(4);
        const RuntimeCounters mark = counters();
        ok(cudaMemcpy(x, mine.data(), 16, cudaMemcpyHostToDevice));
        EXPECT_EQ((counters() - mark).host_synchronizations, 1) << "with the default stream";
        EXPECT_EQ((counters() - mark).copied_bytes, 16);
        mine.assign(4, 0);  // the copy has its own
        ok(cudaMemcpy(back.data(), x, 16, cudaMemcpyDeviceToHost));
        EXPECT_EQ(back, numbers(5));
    });
}
TEST_F(Copies, FromPageableMemoryMayEndAfterTheCall) {
    int *const x = device_memory(1), mine = 1;
    ok(cudaMemcpy(x, &mine, 4, cudaMemcpyHostToDevice));
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
    in_every_order([] {
        int *const y = device_memory(1), other = 1;
        ok(cudaMemcpy(y, &other, 4, cudaMemcpyHostToDevice));
        expect_race(sentence_of([&] {
                        add(y, 1, new_stream());
                        ok(cudaDeviceSynchronize());
                    }),
                    "cudaMemcpy host to device");
    });
}
TEST_F(Copies, FromPageableMemoryWaitForTheDefaultStreamFirst) {
    in_every_order([] {
        int *const x = device_memory(1), *const out = pinned_memory(1), mine = 3;
        bool ran = false;
        ok(cudaMemsetAsync(x, 7, 4, nullptr));
        copy(out, x, 1, nullptr);
        enqueue_kernel(nullptr, "k", [&] { ran = true; });
        ok(cudaMemcpy(x, &mine, 4, cudaMemcpyHostToDevice));
        EXPECT_TRUE(ran);
        EXPECT_EQ(*out, 0x07070707) << "the host knows that this copy ended";
    });
}
TEST_F(Copies, FromPinnedMemoryToTheHostAndOfTheHostEndBeforeTheCallReturns) {
    in_every_order([] {
        int *const x = device_memory(4), *const pinned = pinned_memory(4);
        const std::vector<int> mine = numbers(1);
        std::copy(mine.begin(), mine.end(), pinned);
        const RuntimeCounters mark = counters();
        ok(cudaMemcpy(x, pinned, 16, cudaMemcpyHostToDevice));
        pinned[0] = 9;
        ok(cudaMemcpy(pinned, x, 16, cudaMemcpyDeviceToHost));
        EXPECT_EQ(pinned[0], 1);
        std::vector<int> other(4);
        ok(cudaMemcpy(other.data(), pinned, 16, cudaMemcpyHostToHost));
        EXPECT_EQ(other, mine);
        EXPECT_EQ((counters() - mark).host_synchronizations, 3);
        EXPECT_EQ((counters() - mark).copies, 0);
        ok(cudaFree(x));
        ok(cudaFreeHost(pinned));
        expect_clean();
    });
}
TEST_F(Copies, FromDeviceToDeviceDoNotWait) {
    in_every_order([] {
        int *const x = device_memory(4), *const y = device_memory(4);
        const std::vector<int> mine = numbers(1);
        ok(cudaMemcpy(x, mine.data(), 16, cudaMemcpyHostToDevice));
        const RuntimeCounters mark = counters();
        ok(cudaMemcpy(y, x, 16, cudaMemcpyDeviceToDevice));
        EXPECT_EQ((counters() - mark).host_synchronizations, 0);
        EXPECT_EQ((counters() - mark).copies, 1);
        expect_race(sentence_of([&] {
                        add(y, 1, new_stream());
                        ok(cudaDeviceSynchronize());
                    }),
                    "cudaMemcpy device to device");
    });
    in_every_order([] {
        int *const x = device_memory(4), *const y = device_memory(4);
        std::vector<int> mine = numbers(1), back(4);
        ok(cudaMemcpy(x, mine.data(), 16, cudaMemcpyHostToDevice));
        ok(cudaMemcpy(y, x, 16, cudaMemcpyDeviceToDevice));
        ok(cudaMemcpy(back.data(), y, 16, cudaMemcpyDeviceToHost));  // in the same stream
        EXPECT_EQ(back, mine);
        ok(cudaFree(x));
        ok(cudaFree(y));
        expect_clean();
    });
}
TEST_F(Copies, ThatNobodyWaitedForAreNamedAtTheEnd) {
    in_every_order([] {
        int *const x = device_memory(1), mine = 1;
        ok(cudaMemcpy(x, &mine, 4, cudaMemcpyHostToDevice));
        EXPECT_EQ(sentence_of([] { expect_clean(); }),
                  "default stream of device 0 has work that nobody waited for, the last of it "
                  "'cudaMemcpy host to device'. Synchronize with the stream, or with an event "
                  "behind it.");
    });
}
TEST_F(Copies, OfNoBytesTouchNothing) {
    const RuntimeCounters mark = counters();
    ok(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
    ok(cudaMemset(nullptr, 0, 0));
    ok(cudaMemcpyPeer(nullptr, 1, nullptr, 0, 0));
    ok(cudaMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyDefault, nullptr));
    ok(cudaMemsetAsync(nullptr, 0, 0, nullptr));
    EXPECT_EQ(counters(), mark);
}
TEST_F(Copies, BetweenAreasThatOverlapAreRefused) {
    std::byte* const x = device_memory<std::byte>(1024);
    const auto text = [](const std::string& name, int bytes, int from, int to) {
        return name + " copies " + std::to_string(bytes) +
               " bytes of device memory 1 of device 0 (1024 bytes) from its byte " +
               std::to_string(from) + " to its byte " + std::to_string(to) +
               ": the two areas overlap. Copy through other memory.";
    };
    const cudaStream_t s = new_stream();
    const std::string async = "cudaMemcpyAsync (stream 1 of device 0)";
    EXPECT_EQ(sentence_of([&] { cudaMemcpyAsync(x + 511, x, 512, cudaMemcpyDefault, s); }),
              text(async, 512, 0, 511));
    EXPECT_EQ(sentence_of([&] { cudaMemcpyAsync(x, x + 511, 512, cudaMemcpyDefault, s); }),
              text(async, 512, 511, 0));
    EXPECT_EQ(sentence_of([&] { cudaMemcpyAsync(x, x, 4, cudaMemcpyDefault, s); }),
              text(async, 4, 0, 0));
    EXPECT_EQ(sentence_of([&] { cudaMemcpy(x + 1, x, 2, cudaMemcpyDefault); }),
              text("cudaMemcpy", 2, 0, 1));
    EXPECT_EQ(sentence_of([&] { cudaMemcpyPeer(x + 1, 0, x, 0, 2); }),
              text("cudaMemcpyPeer (default stream of device 0)", 2, 0, 1));
    EXPECT_EQ(sentence_of([&] { cudaMemcpyPeerAsync(x, 0, x + 1, 0, 2, s); }),
              text("cudaMemcpyPeerAsync (stream 1 of device 0)", 2, 1, 0));
    std::vector<int> mine(3);
    EXPECT_EQ(
        sentence_of([&] { cudaMemcpy(&mine[1], mine.data(), 8, cudaMemcpyDefault); }),
        "cudaMemcpy copies 8 bytes of memory of the host from its byte 0 to its byte 4: the two "
        "areas overlap. Copy through other memory.");
}
TEST_F(Copies, BetweenAreasThatMeetAreRight) {
    in_every_order([] {
        int *const x = device_memory(8), *const out = pinned_memory(8);
        const std::vector<int> mine = numbers(1);
        ok(cudaMemcpy(x, mine.data(), 16, cudaMemcpyDefault));
        ok(cudaMemcpyAsync(x + 4, x, 16, cudaMemcpyDefault, nullptr));
        ok(cudaMemcpy(x, x + 4, 16, cudaMemcpyDefault));
        ok(cudaMemcpyAsync(x, x, 0, cudaMemcpyDefault, nullptr));
        ok(cudaMemcpy(out, x, 32, cudaMemcpyDefault));
        for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], 1 + i % 4);
    });
}
TEST_F(Copies, OfAFailedDeviceReturnItsError) {
    int *const x = device_memory(1), mine = 1;
    fail_operation(1);
    add(x, 1, nullptr);
    EXPECT_EQ(cudaMemcpy(x, &mine, 4, cudaMemcpyHostToDevice), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaMemset(x, 0, 4), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaMemsetAsync(x, 0, 4, nullptr), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaMemcpyAsync(x, x, 4, cudaMemcpyDefault, nullptr), cudaErrorIllegalAddress);
    ok(cudaDeviceReset());
}

// ---- cudaMemset --------------------------------------------------------------------------------

TEST_F(Copies, SetsOfDeviceMemoryDoNotWait) {
    in_every_order([] {
        int* const x = device_memory(1);
        const RuntimeCounters mark = counters();
        ok(cudaMemset(x, 3, 4));
        EXPECT_EQ(counters() - mark,
                  (RuntimeCounters{.sets = 1, .operations = (counters() - mark).operations}));
        expect_race(sentence_of([&] {
                        add(x, 1, new_stream());
                        ok(cudaDeviceSynchronize());
                    }),
                    "set of 4 bytes");
    });
    in_every_order([] {
        int *const x = device_memory(1), back = 0;
        ok(cudaMemset(x, 3, 4));
        ok(cudaMemcpy(&back, x, 4, cudaMemcpyDefault));
        EXPECT_EQ(back, 0x03030303);
    });
}
TEST_F(Copies, SetsOfPinnedMemoryEndBeforeTheCallReturns) {
    in_every_order([] {
        int* const x = pinned_memory(1);
        const RuntimeCounters mark = counters();
        ok(cudaMemset(x, 3, 4));
        EXPECT_EQ((counters() - mark).host_synchronizations, 1);
        EXPECT_EQ(*x, 0x03030303);
    });
}
TEST_F(Copies, SetsWantMemoryOfTheirDevice) {
    int* const x = device_memory(1);
    ok(cudaSetDevice(1));
    EXPECT_EQ(sentence_of([&] { cudaMemset(x, 0, 4); }),
              "cudaMemset writes device memory 1 of device 0 (4 bytes) from device 1. Allocate it "
              "with that device current, or copy it with cudaMemcpyPeerAsync.");
}

// ---- cudaMemcpyPeer ----------------------------------------------------------------------------

TEST_F(Copies, BetweenDevicesFollowAllWorkOfBothAndPrecedeAllThatComes) {
    in_every_order([] {
        int* const x = device_memory(1);
        const cudaStream_t before = new_stream();
        ok(cudaMemsetAsync(x, 1, 4, before));
        ok(cudaSetDevice(1));
        int *const y = device_memory(1), *const out = pinned_memory(1);
        const cudaStream_t there = new_stream();
        ok(cudaMemsetAsync(y, 9, 4, there));
        ok(cudaSetDevice(2));  // of neither
        const RuntimeCounters mark = counters();
        ok(cudaMemcpyPeer(y, 1, x, 0, 4));
        EXPECT_EQ((counters() - mark).host_synchronizations, 0);
        EXPECT_EQ((counters() - mark).copies, 1);
        ok(cudaSetDevice(1));
        add(y, 1, there);  // without an event
        copy(out, y, 1, there);
        const cudaStream_t later = new_stream();
        ok(cudaStreamSynchronize(there));
        add(y, 1, later);
        ok(cudaStreamSynchronize(later));
        EXPECT_EQ(*out, 0x01010102);
        ok(cudaSetDevice(0));
        ok(cudaMemsetAsync(x, 2, 4, before));  // behind the copy that read it
        ok(cudaStreamSynchronize(before));
        ok(cudaFree(x));
        ok(cudaFree(y));
        ok(cudaFreeHost(out));
        for (const cudaStream_t s : {before, there, later}) ok(cudaStreamDestroy(s));
        ok(cudaSetDevice(2));
        ok(cudaDeviceSynchronize());
        expect_clean();
    });
}
TEST_F(Copies, BetweenDevicesAreNotWaitedForByTheHost) {
    in_every_order([] {
        int* const x = device_memory(1);
        ok(cudaSetDevice(1));
        int* const y = device_memory(1);
        ok(cudaMemcpyPeer(y, 1, x, 0, 4));
        EXPECT_NE(sentence_of([&] { cudaFree(y); }), "");
    });
}
TEST_F(Copies, BetweenDevicesThatAreNone) {
    int* const x = device_memory(1);
    EXPECT_EQ(cudaMemcpyPeer(x, 8, x, 0, 4), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaMemcpyPeer(x, 0, x, -1, 4), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaMemcpyPeerAsync(x, 0, x, 8, 4, nullptr), cudaErrorInvalidDevice);
    lose_device(3);
    EXPECT_EQ(cudaMemcpyPeer(x, 0, x, 3, 4), cudaErrorDevicesUnavailable);
}

}  // namespace
