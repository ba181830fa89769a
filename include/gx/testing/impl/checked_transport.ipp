// CheckedTransport: counting, private copies and their comparison.
#pragma once

#include <algorithm>  // equal, max, min
#include <utility>    // exchange, move

#include <gx/testing/checked_transport.hpp>

namespace gx::testing {

GX_DECL void CheckedTransport::count(int channel) {
    const bool first = traffic_.messages++ == 0;
    traffic_.lowest_channel = first ? channel : std::min(traffic_.lowest_channel, channel);
    traffic_.highest_channel = first ? channel : std::max(traffic_.highest_channel, channel);
}

GX_DECL Request CheckedTransport::send(int to, int channel, std::span<const std::byte> message) {
    count(channel);
    traffic_.bytes_sent += static_cast<std::int64_t>(message.size());
    Open open;
    if (before_arrival_) {
        open.sent = message;
        open.copy = std::make_unique<std::vector<std::byte>>(message.begin(), message.end());
        message = *open.copy;
    }
    const Request request = link_.send(to, channel, message);
    open_[request.id] = std::move(open);
    return request;
}

GX_DECL Request CheckedTransport::receive(int from, int channel, std::span<std::byte> message) {
    count(channel);
    Open open;
    if (before_arrival_) {
        std::fill(message.begin(), message.end(), *before_arrival_);
        open.received = message;
        open.copy = std::make_unique<std::vector<std::byte>>(message.size());
        message = *open.copy;
    }
    const Request request = link_.receive(from, channel, message);
    open_[request.id] = std::move(open);
    return request;
}

GX_DECL Arrival CheckedTransport::wait_any(std::span<const Request> requests) {
    const Arrival arrival = link_.wait_any(requests);
    const auto at = open_.find(requests[arrival.index].id);
    if (at == open_.end()) return arrival;
    const Open& open = at->second;
    if (open.copy && arrival.delivery.complete()) {
        std::copy(open.copy->begin(), open.copy->begin() + std::ssize(open.received),
                  open.received.begin());
        if (!std::equal(open.sent.begin(), open.sent.end(), open.copy->begin()))
            ++traffic_.changed_in_flight;
    }
    open_.erase(at);
    return arrival;
}

GX_DECL void CheckedTransport::settle() {
    traffic_.unfinished += static_cast<int>(open_.size());
    while (!open_.empty()) {
        const std::uint32_t id = open_.begin()->first;
        if (!wait({id}).complete()) open_.clear();
    }
}

GX_DECL MessageCounts CheckedTransport::take_traffic() {
    return std::exchange(traffic_, MessageCounts{});
}

}  // namespace gx::testing
