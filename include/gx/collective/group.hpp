// Members, Group: some ranks of a transport, in their own order, as a transport.
#pragma once

#include <array>    // queued messages
#include <cstddef>  // byte
#include <span>     // messages
#include <vector>   // ranks

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/core/transport.hpp>  // TransportOver, Placement
#include <gx/memory/queue.hpp>    // Link, StreamOrdered, QueuedMessage

namespace gx::collective {

/// An ordered choice of the ranks of a placement: rank i of the group is rank at(i) of the whole.
///
/// Errors: no rank, a rank that is not in the placement, or one twice breaks the contract.
/// Cost:   made while setting up; O(ranks of the whole) memory.
class Members {
public:
    Members(Placement whole, std::vector<int> ranks);
    /// All ranks of one machine, in order.
    [[nodiscard]] static Members of_machine(Placement whole, int machine);
    /// Rank `gpu` of every machine, in the order of the machines.
    /// Errors: gx::Error where a machine of a ragged placement has no such rank.
    [[nodiscard]] static Members across_machines(Placement whole, int gpu);

    [[nodiscard]] Placement whole() const { return whole_; }
    [[nodiscard]] int ranks() const { return static_cast<int>(ranks_.size()); }
    /// The rank of the whole that is rank i of the group.
    [[nodiscard]] int at(int i) const { return ranks_[static_cast<std::size_t>(i)]; }
    /// at() undone; -1: not a member.
    [[nodiscard]] int index_of(int rank) const { return index_[static_cast<std::size_t>(rank)]; }
    /// Ranks that it puts on one machine are on one machine of the whole. Of all placements for
    /// which this is so, the one with the most ranks a machine: of_machine() gives {1, G},
    /// across_machines() {M, 1}, and machines with unequal numbers of members, {n, 1} if need be.
    [[nodiscard]] Placement placement() const { return placement_; }

private:
    /// Whether each block of `several` consecutive members lies on one machine.
    [[nodiscard]] bool near_in_blocks_of(int several) const;

    Placement whole_;
    std::vector<int> ranks_;
    std::vector<int> index_;  // index_[rank of the whole]
    Placement placement_;
};

/// The end of one rank in a group: a Transport whose ranks are the members, or a StreamOrdered one,
/// as T is.
///
/// Order:  that of the transport below. Two groups with the same two ranks in both share their
///         messages' order, so they take turns on one channel, or use different channels.
/// Errors: a Delivery names its peer as a rank of the whole. A rank that is no member, or members
///         of another placement than the transport's, break the contract.
/// Cost:   allocates nothing, but to queue more than 128 messages at once: make one for each call.
///         Refers to the transport and the members.
template <Link T>
class Group : public TransportOver<T> {
public:
    using Memory = memory_of<T>;

    Group(T& whole, const Members& members) : TransportOver<T>(whole), members_(&members) {
        GX_EXPECT(members.whole() == whole.placement(),
                  "members of the placement that the transport has");
        rank_ = members.index_of(whole.rank());
        GX_EXPECT(rank_ >= 0, "a rank that is a member of the group");
    }

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return members_->ranks(); }
    [[nodiscard]] Placement placement() const { return members_->placement(); }
    [[nodiscard]] const Members& members() const { return *members_; }

    Request send(int to, int channel, std::span<const std::byte> message)
        requires Transport<T>
    {
        return this->under().send(members_->at(to), channel, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message)
        requires Transport<T>
    {
        return this->under().receive(members_->at(from), channel, message);
    }
    void exchange(std::span<const QueuedMessage<Memory>> messages)
        requires StreamOrdered<T>
    {
        std::array<QueuedMessage<Memory>, 128> few;
        std::vector<QueuedMessage<Memory>> many;
        if (messages.size() > few.size()) many.resize(messages.size());
        const auto of_whole = std::span(many.empty() ? few.data() : many.data(), messages.size());
        for (std::size_t i = 0; i < messages.size(); ++i) {
            of_whole[i] = messages[i];
            of_whole[i].peer = members_->at(messages[i].peer);
        }
        this->under().exchange(of_whole);
    }

private:
    const Members* members_;
    int rank_ = -1;
};
static_assert(Transport<Group<archetype::Transport>>);

}  // namespace gx::collective

#if defined(GX_HEADER_ONLY)
#include <gx/collective/impl/group.ipp>
#endif
