// CheckedTransport: counting, private copies and their comparison.
#pragma once

#include <algorithm>  // equal, find, max, min
#include <utility>    // exchange, move

#include <gx/testing/checked_transport.hpp>

namespace gx::testing {

GX_DECL void CheckedTransport::count(MessageEvent posted) {
    const int channel = posted.channel;
    traffic_.events.push_back(posted);
    const bool first = traffic_.messages++ == 0;
    traffic_.lowest_channel = first ? channel : std::min(traffic_.lowest_channel, channel);
    traffic_.highest_channel = first ? channel : std::max(traffic_.highest_channel, channel);
}

GX_DECL Request CheckedTransport::send(int to, int channel, std::span<const std::byte> message) {
    traffic_.bytes_sent += static_cast<std::int64_t>(message.size());
    Open open;
    if (before_arrival_) {
        open.sent = message;
        open.copy = std::make_unique<std::vector<std::byte>>(message.begin(), message.end());
        message = *open.copy;
    }
    const Request request = link_.send(to, channel, message);
    count({MessageEvent::Kind::sent, to, channel, request.id});
    open_[request.id] = std::move(open);
    return request;
}

GX_DECL Request CheckedTransport::receive(int from, int channel, std::span<std::byte> message) {
    Open open;
    if (before_arrival_) {
        std::fill(message.begin(), message.end(), *before_arrival_);
        open.received = message;
        open.copy = std::make_unique<std::vector<std::byte>>(message.size());
        message = *open.copy;
    }
    const Request request = link_.receive(from, channel, message);
    count({MessageEvent::Kind::received, from, channel, request.id});
    open_[request.id] = std::move(open);
    return request;
}

GX_DECL Arrival CheckedTransport::wait_any(std::span<const Request> requests) {
    const Arrival arrival = link_.wait_any(requests);
    const std::uint32_t id = requests[arrival.index].id;
    if (!stopped_) traffic_.events.push_back({.kind = MessageEvent::Kind::waited, .request = id});
    stopped_ = stopped_ || !arrival.delivery.complete();
    const auto at = open_.find(id);
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

GX_DECL void CheckedTransport::count_group(std::span<const MessageEvent> posted,
                                           std::int64_t bytes_sent) {
    traffic_.bytes_sent += bytes_sent;
    const std::uint32_t first = groups_;
    for (MessageEvent m : posted) {
        m.channel = 0;
        m.request = groups_++;
        count(m);
    }
    for (std::uint32_t request = first; request < groups_; ++request)
        traffic_.events.push_back({.kind = MessageEvent::Kind::waited, .request = request});
}

GX_DECL MessageCounts CheckedTransport::take_traffic() {
    return std::exchange(traffic_, MessageCounts{});
}

namespace detail {

/// Follows the events of all ranks in an order in which they can have happened.
class RoundCounter {
public:
    RoundCounter(std::span<const MessageCounts> ranks, int channels)
        : ranks_(ranks.size()), channels_(static_cast<std::size_t>(channels)) {
        sent_.resize(ranks_ * ranks_ * channels_);
        received_.resize(sent_.size());
        for (const MessageCounts& rank : ranks)
            progress_.push_back({.events = rank.events, .done = std::vector<int>(channels_)});
    }
    [[nodiscard]] int count() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t rank = 0; rank < ranks_; ++rank)
                while (!progress_[rank].events.empty() && advance(rank)) moved = true;
        }
        return highest_;
    }

private:
    struct Open {
        std::uint32_t request;
        int round;
        std::size_t channel, line;  ///< `line`: of messages from one rank to another
        std::size_t number;         ///< in its line
        bool receives;
    };
    struct RankProgress {
        std::span<const MessageEvent> events;
        std::vector<int> done;  ///< rounds, of each channel
        std::vector<Open> open{};
    };
    [[nodiscard]] std::size_t line(std::size_t from, std::size_t to, std::size_t channel) const {
        return (from * ranks_ + to) * channels_ + channel;
    }
    /// Takes the next event of a rank; false if it waits for a message that is not sent yet.
    bool advance(std::size_t rank) {
        RankProgress& mine = progress_[rank];
        const MessageEvent& e = mine.events.front();
        if (e.kind == MessageEvent::Kind::waited) {
            const auto at = std::ranges::find(mine.open, e.request, &Open::request);
            if (at != mine.open.end()) {
                int round = at->round;
                if (at->receives) {
                    const auto& sent = sent_[at->line];
                    if (at->number >= sent.size()) return false;
                    round = std::max(round, sent[at->number]);
                }
                int& done = mine.done[at->channel];
                done = std::max(done, round);
                highest_ = std::max(highest_, done);
                *at = mine.open.back();
                mine.open.pop_back();
            }
        } else {
            const auto channel = static_cast<std::size_t>(e.channel),
                       peer = static_cast<std::size_t>(e.peer);
            const bool receives = e.kind == MessageEvent::Kind::received;
            const std::size_t l = receives ? line(peer, rank, channel) : line(rank, peer, channel);
            const int round = mine.done[channel] + 1;
            mine.open.push_back(
                {e.request, round, channel, l, receives ? received_[l]++ : 0, receives});
            if (!receives) sent_[l].push_back(round);
        }
        mine.events = mine.events.subspan(1);
        return true;
    }

    std::size_t ranks_, channels_;
    std::vector<RankProgress> progress_{};
    std::vector<std::vector<int>> sent_{};  ///< rounds of the messages of a line
    std::vector<std::size_t> received_{};   ///< receives posted on a line
    int highest_ = 0;
};

}  // namespace detail

GX_DECL int message_rounds(std::span<const MessageCounts> ranks, int channels) {
    return detail::RoundCounter(ranks, channels).count();
}

GX_DECL CheckedTransport::CheckedTransport(AnyTransport& link,
                                           std::optional<std::byte> before_arrival)
    : link_(link), before_arrival_(before_arrival) {}

}  // namespace gx::testing
