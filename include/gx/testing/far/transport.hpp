// FarTransport, HostTransport: messages between ranks of a FarMachine, by queues and by hosts.
#pragma once

#include <cstdint>  // uint32_t
#include <map>      // posted receives
#include <span>     // messages

#include <gx/core/decl.hpp>          // GX_HEADER_ONLY
#include <gx/core/transport.hpp>     // Transport
#include <gx/memory/queue.hpp>       // StreamOrdered, QueuedMessage
#include <gx/testing/far/queue.hpp>  // FarQueue

namespace gx::testing {

/// Messages of far memory, queued; models StreamOrdered, with NCCL's rules.
class FarTransport {
public:
    using Memory = FarMemory;

    FarTransport(FarMachine& machine, int rank) : queue_(machine, rank, "communication") {}

    [[nodiscard]] int rank() const { return queue_.rank(); }
    [[nodiscard]] int ranks() const { return placement().ranks(); }
    [[nodiscard]] Placement placement() const { return queue_.machine().placement(); }
    [[nodiscard]] FarQueue& queue() { return queue_; }
    void exchange(std::span<const QueuedMessage<FarMemory>> group);
    /// Errors: the machine throws where a receive in one bucket meets a send in another.
    void working_on(const Operation& operation) { operation_ = operation; }

private:
    FarQueue queue_;
    Operation operation_{};
};
static_assert(StreamOrdered<FarTransport>);

/// Messages of host memory between the ranks' hosts: models Transport, for control messages.
class HostTransport {
public:
    HostTransport(FarMachine& machine, int rank) : machine_(&machine), rank_(rank) {}

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return placement().ranks(); }
    [[nodiscard]] Placement placement() const { return machine_->placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        machine_->host_send(rank_, to, channel, message);
        return {0};
    }
    Request receive(int from, int channel, std::span<std::byte> message);
    Delivery wait(Request request);
    Arrival wait_any(std::span<const Request> some);

private:
    struct Posted {
        int from = -1, channel = 0;
        std::span<std::byte> message{};
    };
    FarMachine* machine_;
    int rank_;
    std::uint32_t last_ = 0;
    std::map<std::uint32_t, Posted> posted_{};
};
static_assert(Transport<HostTransport>);

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/far/impl/transport.ipp>
#endif
