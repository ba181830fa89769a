// FarTransport, HostTransport: groups and messages of hosts.
#pragma once

#include <cstddef>  // byte, size_t
#include <span>     // messages
#include <string>   // sentences
#include <utility>  // move

#include <gx/core/error.hpp>  // Error
#include <gx/testing/far/transport.hpp>

namespace gx::testing {

GX_DECL void FarTransport::exchange(std::span<const QueuedMessage<FarMemory>> group) {
    if (group.empty()) return;
    FarWork work{.operation = {"messages", operation_.step, operation_.bucket}};
    for (const auto& m : group) {
        if (m.out.empty() && m.in.empty())
            queue_.machine().stop_at(queue_.rank(),
                                     Error("rank " + std::to_string(queue_.rank()) +
                                           " exchanges an empty message with rank " +
                                           std::to_string(m.peer) + ". Leave it out, on both."));
        const bool sends = !m.out.empty();
        const auto seen = sends ? FarMemory::seen(m.out) : FarMemory::seen(m.in);
        work.messages.push_back(
            {sends, m.peer, {const_cast<std::byte*>(seen.data()), seen.size()}});
    }
    queue_.enqueue(std::move(work));
}

GX_DECL Request HostTransport::receive(int from, int channel, std::span<std::byte> message) {
    posted_[++last_] = {from, channel, message};
    return {last_};
}

GX_DECL Delivery HostTransport::wait(Request request) {
    const auto found = posted_.find(request.id);
    if (found == posted_.end()) return {};  // a send
    const auto [from, channel, message] = found->second;
    posted_.erase(found);
    return machine_->host_receive(rank_, from, channel, message);
}

GX_DECL Arrival HostTransport::wait_any(std::span<const Request> some) {
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

}  // namespace gx::testing
