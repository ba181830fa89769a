// CUDA Runtime API, "Peer Device Memory Access".
#include "state.hpp"

using namespace gx::cuda_testing;

namespace {

bool can_access(const Runtime& r, int device, int peer) {
    return r.options.peer_access && device != peer;
}

}  // namespace

// "Peer Device Memory Access": all devices of the double can, or none:
// RuntimeOptions::peer_access.
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    return call("cudaDeviceCanAccessPeer", {}, [&](Runtime& r) {
        if (can == nullptr) return cudaErrorInvalidValue;
        if (!r.is_device(device) || !r.is_device(peer)) return cudaErrorInvalidDevice;
        *can = can_access(r, device, peer);
        return cudaSuccess;
    });
}

// "Peer Device Memory Access": from the current device, one way, until either is reset.
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    return call("cudaDeviceEnablePeerAccess", {}, [&](Runtime& r) {
        const int device = host_thread(r).device;
        if (flags != 0) return cudaErrorInvalidValue;
        if (!r.is_device(peer) || !can_access(r, device, peer)) return cudaErrorInvalidDevice;
        const bool is_new = r.devices[static_cast<std::size_t>(device)].peers.insert(peer).second;
        return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
    });
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    return call("cudaDeviceDisablePeerAccess", {}, [&](Runtime& r) {
        if (!r.is_device(peer)) return cudaErrorInvalidDevice;
        auto& peers = r.devices[static_cast<std::size_t>(host_thread(r).device)].peers;
        return peers.erase(peer) == 1 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
    });
}
