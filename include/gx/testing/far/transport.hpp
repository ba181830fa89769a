// FarTransport, HostTransport: messages between ranks of a FarMachine, by queues and by hosts.
#pragma once

#include <cstdint>  // uint32_t
#include <map>      // posted receives
#include <span>     // messages
#include <utility>  // move

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
    void exchange(std::span<const QueuedMessage<FarMemory>> group) {
        if (group.empty()) return;
        FarWork work{.operation = {"messages"}};
        for (const auto& m : group) {
            const bool sends = !m.out.empty();
            const auto seen = sends ? FarMemory::seen(m.out) : FarMemory::seen(m.in);
            work.messages.push_back(
                {sends, m.peer, {const_cast<std::byte*>(seen.data()), seen.size()}});
        }
        queue_.enqueue(std::move(work));
    }

private:
    FarQueue queue_;
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
    Request receive(int from, int channel, std::span<std::byte> message) {
        posted_[++last_] = {from, channel, message};
        return {last_};
    }
    Delivery wait(Request request) {
        const auto found = posted_.find(request.id);
        if (found == posted_.end()) return {};  // a send
        const auto [from, channel, message] = found->second;
        posted_.erase(found);
        return machine_->host_receive(rank_, from, channel, message);
    }
    Arrival wait_any(std::span<const Request> some) {
        const auto arrived = [&]() -> std::size_t {
            for (std::size_t i = 0; i < some.size(); ++i) {
                const auto found = posted_.find(some[i].id);
                if (found == posted_.end() ||
                    machine_->host_message_waits(rank_, found->second.from, found->second.channel))
                    return i;
            }
            return some.size();
        };
        if (arrived() == some.size()) {
            const int from = posted_.at(some[0].id).from;
            const Delivery d = machine_->host_wait(
                rank_, [&] { return arrived() < some.size(); }, from,
                "a message of any of several hosts");
            if (!d.complete()) {
                posted_.erase(some[0].id);
                return {0, d};
            }
        }
        const std::size_t i = arrived();
        return {i, wait(some[i])};
    }

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
