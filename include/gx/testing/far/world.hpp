// FarWorld: ranks whose gradients lie in far memory; stands in for GPUs in tests.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // uint64_t
#include <memory>    // make_unique
#include <span>      // lost ranks

#include <gx/core/detail/expect_ranks.hpp>  // expect_ranks
#include <gx/core/function_ref.hpp>         // FunctionRef
#include <gx/core/units.hpp>                // Nanoseconds
#include <gx/core/world.hpp>                // NoDevice
#include <gx/testing/far/machine.hpp>       // FarMachine
#include <gx/testing/far/transport.hpp>     // FarTransport, HostTransport
#include <gx/threads/threads.hpp>           // ranks_without, placement_of

namespace gx::testing {

template <class Device>
class FarRank;

/// As many ranks as the placement holds, with far memory and queues. Each run() is a FarMachine of
/// its own, so equal options repeat a run, whatever ran before.
template <class Device = NoDevice>
class FarWorld {
public:
    struct Options {
        Placement placement{};
        std::uint64_t seed = 1;  ///< of the order of queued work
        QueueProgress progress = QueueProgress::random;
    };
    using Rank = FarRank<Device>;

    explicit FarWorld(Options options) : options_(options) {
        gx::detail::expect_ranks(options_.placement);
    }

    [[nodiscard]] int ranks() const { return options_.placement.ranks(); }
    [[nodiscard]] Placement placement() const { return options_.placement; }
    void run(FunctionRef<void(Rank&)> f) {
        FarMachine machine(options_.placement, options_.seed, options_.progress);
        machine.run([&](int r) {
            Rank rank(machine, r);
            f(rank);
        });
    }

    /// A world of the ranks that are not lost.
    [[nodiscard]] Survivors<FarWorld> survivors(std::span<const int> lost,
                                                Nanoseconds /*restart_time*/) const {
        Survivors<FarWorld> left{.members = gx::detail::threads::ranks_without(ranks(), lost)};
        if (left.members.empty()) return left;
        Options options = options_;
        options.placement = gx::detail::threads::placement_of(placement(), left.members);
        left.world = std::make_unique<FarWorld>(options);
        return left;
    }

private:
    Options options_;
};

/// What f is given: valid on the rank's thread, until f returns.
template <class DeviceType>
class FarRank {
public:
    using Device = DeviceType;
    using Memory = FarMemory;

    FarRank(FarMachine& machine, int rank)
        : machine_(&machine),
          resource_(machine, rank),
          transport_(machine, rank),
          control_(machine, rank) {}

    [[nodiscard]] int rank() const { return transport_.rank(); }
    [[nodiscard]] int ranks() const { return transport_.ranks(); }
    /// Gradients' messages, and their queue.
    [[nodiscard]] FarTransport& transport() { return transport_; }
    [[nodiscard]] FarQueue& stream() { return transport_.queue(); }
    /// The hosts' messages.
    [[nodiscard]] HostTransport& control() { return control_; }
    [[nodiscard]] MemoryResource& memory() { return resource_; }
    [[nodiscard]] FarMachine& machine() { return *machine_; }
    [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions options)
        requires(!std::same_as<Device, NoDevice>)
    {
        options.rank = rank();
        return std::make_unique<Device>(*this, graph, options);
    }
    /// Units of work done: no real time passes here.
    [[nodiscard]] Nanoseconds now() const {
        return Nanoseconds(static_cast<std::int64_t>(machine_->done()));
    }

private:
    FarMachine* machine_;
    FarResource resource_;
    FarTransport transport_;
    HostTransport control_;
};

}  // namespace gx::testing
