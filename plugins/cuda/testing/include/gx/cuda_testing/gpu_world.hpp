// GpuWorld: ranks as threads with PeerTransport, on real GPUs or the runtime's double.
#pragma once

#include <algorithm>  // max
#include <concepts>   // same_as
#include <exception>  // current_exception
#include <memory>     // make_unique
#include <string>     // names

#include <gx/core/function_ref.hpp>            // FunctionRef
#include <gx/core/units.hpp>                   // Nanoseconds
#include <gx/core/world.hpp>                   // NoDevice
#include <gx/cuda/error.hpp>                   // expect
#include <gx/cuda/queue.hpp>                   // DeviceContext
#include <gx/cuda/step_graphs.hpp>             // StepGraphs
#include <gx/cuda_testing/peer_transport.hpp>  // PeerTransport
#include <gx/cuda_testing/runtime.hpp>         // name_memory
#include <gx/threads/threads.hpp>              // ThreadWorld

namespace gx::cuda_testing {

/// A GPU's memory, whose buffers the double's sentences name.
class NamedResource : public cuda::Resource {
public:
    using Resource::Resource;
    [[nodiscard]] std::byte* allocate(std::size_t bytes, const Label& name) override {
        std::byte* const memory = Resource::allocate(bytes, name);
        name_memory(memory, std::string(name.view()));
        return memory;
    }
};

template <class Device>
class GpuRank;

/// Ranks take turns where there are fewer GPUs: several are virtual ranks of one.
[[nodiscard]] inline int gpu_of(int rank) {
    int gpus = 0;
    cuda::expect(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount", -1);
    return rank % std::max(gpus, 1);
}

/// As many ranks as the placement holds; rank r has gpu_of(r). Its control messages are those of a
/// ThreadWorld. Errors: those of the double, too.
template <class Device = NoDevice>
class GpuWorld {
public:
    using Rank = GpuRank<Device>;

    /// `graphs`: a single rank's steps are captured and replayed; events of other ranks' streams,
    /// which PeerTransport waits for, can't be captured.
    explicit GpuWorld(Placement placement, bool graphs = true)
        : threads_({.placement = placement}), graphs_(graphs && placement.ranks() == 1) {}

    [[nodiscard]] int ranks() const { return threads_.ranks(); }
    [[nodiscard]] Placement placement() const { return threads_.placement(); }
    void run(FunctionRef<void(Rank&)> f) {
        PeerBoard board(placement());
        try {
            threads_.run([&](ThreadRank<NoDevice>& host) {
                try {
                    Rank rank(board, host, graphs_);
                    f(rank);
                } catch (...) {
                    board.leave(host.rank(), std::current_exception());
                    throw;
                }
                board.leave(host.rank());
            });
        } catch (...) {
            if (board.error()) std::rethrow_exception(board.error());
            throw;
        }
    }

private:
    ThreadWorld<> threads_;
    bool graphs_;
};

/// What f is given: valid on the rank's thread, until f returns.
template <class DeviceType>
class GpuRank {
public:
    using Device = DeviceType;
    using Memory = cuda::GpuMemory;

    GpuRank(PeerBoard& board, ThreadRank<NoDevice>& host, bool graphs)
        : host_(&host),
          gpu_(gpu_of(host.rank())),
          resource_(gpu_of(host.rank())),
          transport_(board, gpu_, host.rank()),
          repeats_(graphs) {}

    [[nodiscard]] int rank() const { return host_->rank(); }
    [[nodiscard]] int ranks() const { return host_->ranks(); }
    [[nodiscard]] PeerTransport& transport() { return transport_; }
    /// The hosts' messages.
    [[nodiscard]] auto& control() { return host_->transport(); }
    [[nodiscard]] MemoryResource& memory() { return resource_; }
    [[nodiscard]] cuda::DeviceContext& gpu() { return gpu_; }
    [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions options)
        requires(!std::same_as<Device, NoDevice>)
    {
        options.rank = rank();
        return std::make_unique<Device>(gpu_, graph, options);
    }
    // Models RepeatsQueuedWork.
    [[nodiscard]] bool repeats() const { return repeats_; }
    void repeat(cuda::Queue& queue, std::uint64_t key, FunctionRef<void()> f) {
        graphs_.run(key, queue, transport_.queue(), [&] {
            f();
            return true;
        });
    }
    void forget_repeated() { graphs_.clear(); }
    [[nodiscard]] Nanoseconds now() const { return host_->now(); }

private:
    ThreadRank<NoDevice>* host_;
    cuda::DeviceContext gpu_;
    NamedResource resource_;
    PeerTransport transport_;
    cuda::StepGraphs graphs_{};
    bool repeats_;
};

}  // namespace gx::cuda_testing
