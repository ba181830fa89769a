// Access of a device to the memory of another, and what memory an address is of.
#include "double.hpp"

namespace {

using namespace double_test;

class Peers : public Double {
protected:
    static cudaPointerAttributes attributes(const void* p) {
        cudaPointerAttributes a{};
        ok(cudaPointerGetAttributes(&a, p));
        return a;
    }
    static int can(int device, int peer) {
        int yes = -1;
        ok(cudaDeviceCanAccessPeer(&yes, device, peer));
        return yes;
    }
};

TEST_F(Peers, CanBeAllOthersOrNone) {
    int yes = 0;
    EXPECT_EQ(can(0, 1), 1);
    EXPECT_EQ(can(7, 3), 1);
    EXPECT_EQ(can(2, 2), 0);
    EXPECT_EQ(cudaDeviceCanAccessPeer(&yes, 0, 8), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaDeviceCanAccessPeer(&yes, -1, 0), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaDeviceCanAccessPeer(nullptr, 0, 1), cudaErrorInvalidValue);
    start({.peer_access = false});
    EXPECT_EQ(can(0, 1), 0);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);
}
TEST_F(Peers, AreEnabledOnceOneWayAndUntilAReset) {
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(8, 0), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    EXPECT_EQ(cudaDeviceDisablePeerAccess(8), cudaErrorInvalidDevice);
    ok(cudaDeviceEnablePeerAccess(1, 0));
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    ok(cudaDeviceDisablePeerAccess(1));
    ok(cudaDeviceEnablePeerAccess(1, 0));
    ok(cudaDeviceEnablePeerAccess(2, 0));
    ok(cudaSetDevice(1));
    EXPECT_EQ(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled) << "one way";
    ok(cudaDeviceReset());  // of the peer
    ok(cudaSetDevice(0));
    EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    ok(cudaDeviceReset());  // its own
    EXPECT_EQ(cudaDeviceDisablePeerAccess(2), cudaErrorPeerAccessNotEnabled);
}
TEST_F(Peers, LetKernelsCopiesAndSetsUseTheirMemory) {
    in_every_order([] {
        ok(cudaSetDevice(1));
        int *const theirs = device_memory(1), *const out = pinned_memory(1);
        ok(cudaSetDevice(0));
        ok(cudaDeviceEnablePeerAccess(1, 0));
        int* const mine = device_memory(1);
        const cudaStream_t s = new_stream();
        ok(cudaMemsetAsync(theirs, 1, 4, s));
        add(theirs, 1, s);
        enqueue_kernel(s, "unreported", [=] { *theirs += 1; });
        copy(mine, theirs, 1, s);
        add(mine, 1, s);
        copy(out, mine, 1, s);
        ok(cudaStreamSynchronize(s));
        EXPECT_EQ(*out, 0x01010104);
    });
}
TEST_F(Peers, RaceAsOthersDo) {
    in_every_order([] {
        ok(cudaSetDevice(1));
        int* const theirs = device_memory(1);
        const cudaStream_t there = new_stream();
        add(theirs, 1, there, "there");
        ok(cudaSetDevice(0));
        ok(cudaDeviceEnablePeerAccess(1, 0));
        const std::string text = sentence_of([&] {
            const cudaStream_t s = new_stream();
            add(theirs, 1, s, "here");
            ok(cudaStreamSynchronize(s));
            ok(cudaSetDevice(1));
            ok(cudaDeviceSynchronize());
        });
        EXPECT_EQ(text.find("race: '"), 0u) << text;
    });
}
TEST_F(Peers, AreNotUsedWithoutAccess) {
    ok(cudaSetDevice(1));
    int* const theirs = device_memory(1);
    ok(cudaSetDevice(0));
    ok(cudaDeviceEnablePeerAccess(2, 0));
    add(theirs, 1, nullptr);
    EXPECT_NE(sentence_of([] { cudaDeviceSynchronize(); }).find("from device 0"),
              std::string::npos);
}

TEST_F(Peers, AnAddressIsOfDevicePinnedRegisteredOrPageableMemory) {
    int *const x = device_memory(2), *const pinned = pinned_memory(2), mine[2] = {};
    cudaPointerAttributes a = attributes(x + 1);
    EXPECT_EQ(a.type, cudaMemoryTypeDevice);
    EXPECT_EQ(a.device, 0);
    EXPECT_EQ(a.devicePointer, x + 1);
    EXPECT_EQ(a.hostPointer, nullptr);
    ok(cudaSetDevice(1));
    EXPECT_EQ(attributes(x).device, 0);
    EXPECT_EQ(attributes(x).devicePointer, nullptr) << "not accessible from device 1";
    ok(cudaDeviceEnablePeerAccess(0, 0));
    EXPECT_EQ(attributes(x).devicePointer, x);
    a = attributes(pinned + 1);
    EXPECT_EQ(a.type, cudaMemoryTypeHost);
    EXPECT_EQ(a.device, 0) << "that was current then";
    EXPECT_EQ(a.devicePointer, pinned + 1);
    EXPECT_EQ(a.hostPointer, pinned + 1);
    a = attributes(mine);
    EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
    EXPECT_EQ(a.device, cudaInvalidDeviceId);
    EXPECT_EQ(a.devicePointer, nullptr);
    EXPECT_EQ(a.hostPointer, mine);
    ok(cudaHostRegister(mine, sizeof mine, cudaHostRegisterPortable));
    EXPECT_EQ(attributes(mine + 1).type, cudaMemoryTypeHost);
    EXPECT_EQ(attributes(mine + 1).device, 1);
    ok(cudaHostUnregister(mine));
    EXPECT_EQ(attributes(x + 64).type, cudaMemoryTypeUnregistered) << "beyond it";
    EXPECT_EQ(attributes(x - 1).type, cudaMemoryTypeUnregistered) << "before it";
    EXPECT_EQ(cudaPointerGetAttributes(nullptr, x), cudaErrorInvalidValue);
}
TEST_F(Peers, AnAddressOfFreedMemory) {
    int* const x = device_memory(1);
    ok(cudaFree(x));
    EXPECT_EQ(sentence_of([&] { attributes(x); }),
              "cudaPointerGetAttributes of device memory 1 of device 0 (4 bytes), which cudaFree "
              "freed.");
}

}  // namespace
