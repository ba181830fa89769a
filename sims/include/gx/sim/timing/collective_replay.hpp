// CollectiveReplay: replay of all-reduces on every rank, message by message, without payload.
#pragma once

#include <algorithm>  // max
#include <concepts>   // same_as
#include <cstdint>    // int64_t
#include <limits>     // after all arrivals of an instant
#include <span>       // collectives
#include <utility>    // move
#include <vector>     // members

#include <gx/collective/exchange.hpp>  // Collective, Exchange, chunk_range
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/stream.hpp>          // Task
#include <gx/sim/des/engine.hpp>       // Engine
#include <gx/sim/network/network.hpp>  // FlowNetwork, Transfer
#include <gx/sim/timing/symmetry.hpp>  // RepresentativeMachine, CycleDetector, Detail

namespace gx::sim {

/// Work of the ranks: bucket after bucket, then the first again; each by K concurrent collectives
/// that share its elements as chunks are cut.
template <Collective C>
struct ReductionPlan {
    std::span<const C> collectives{};
    std::vector<std::int64_t> elements{};  ///< of each bucket
    int element_bytes = 1;
    /// Of each bucket: a rank's kernels before and after its collectives; empty: none.
    std::vector<Nanoseconds> before{}, after{};
    BytesPerSecond fused_rate{0};  ///< caps messages, where a link is faster; 0: none

    [[nodiscard]] std::int64_t part(std::size_t bucket, std::size_t k) const {
        return chunk_range(elements[bucket], static_cast<int>(collectives.size()),
                           static_cast<int>(k))
            .size();
    }
    [[nodiscard]] bool has_equal_chunks() const {
        for (std::size_t b = 0; b < elements.size(); ++b)
            for (std::size_t k = 0; k < collectives.size(); ++k)
                if (part(b, k) % collectives[k].chunks() != 0) return false;
        return true;
    }
    /// Messages of one round of buckets, at most.
    [[nodiscard]] std::int64_t messages() const {
        std::int64_t sum = 0;
        for (const C& c : collectives) sum += std::int64_t{c.ranks()} * c.steps();
        return sum * static_cast<std::int64_t>(elements.size());
    }
};

/// With unequal chunks, so many messages are simulated one by one; more are collapsed.
inline constexpr std::int64_t messages_worth_simulating = 1 << 17;

template <Collective C>
[[nodiscard]] bool can_collapse(const ReductionPlan<C>& plan, const ClusterSpec& spec,
                                std::int64_t worth_simulating = messages_worth_simulating) {
    if (!detail::machines_see_the_same(spec)) return false;
    for (const C& c : plan.collectives)
        if (!detail::machines_do_the_same(c, spec)) return false;
    return plan.has_equal_chunks() || plan.messages() > worth_simulating;
}

/// Replay of collectives. Each rank of each collective is a member: a state machine that sends,
/// receives, and continues when both are done, as collective::execute does. A message is done when
/// it has arrived and its receiver has reached that step; until then its sender waits, so one
/// message per member is enough. A rank begins its next bucket when all its members are done and
/// the bucket is queued, with the kernels before it, and ends it with those after it.
///
/// Collapsed, only the ranks of machine 0 are simulated (RepresentativeMachine). Chunks are then as
/// large as the largest of them, also where the last ones would be an element smaller. With no
/// message in flight the members' steps are the whole state. If it recurs shifted by k steps, the
/// interval repeats until the collective's phase ends: its time and counts are multiplied, in
/// integers, instead of simulated.
///
/// Errors: gx::Error for a spec that check(spec) rejects; a plan without buckets or collectives, or
///         with one for another number of ranks than the cluster has, breaks the contract.
template <Collective C>
class CollectiveReplay {
public:
    CollectiveReplay(ReductionPlan<C> plan, const ClusterSpec& spec, Engine& engine, bool collapsed,
                     Task reduced)
        : plan_(std::move(plan)),
          engine_(engine),
          network_(engine),
          stage_(spec, network_, collapsed),
          collapsed_(collapsed),
          reduced_(reduced),
          actors_(static_cast<std::size_t>(stage_.actors())),
          members_(plan_.collectives.size() * actors_.size()) {
        GX_EXPECT(!plan_.elements.empty() && !plan_.collectives.empty(),
                  "a reduction needs a bucket and a collective");
        for (const C& c : plan_.collectives)
            GX_EXPECT(c.ranks() == spec.ranks(),
                      "a collective of as many ranks as the cluster has");
        for (std::size_t b = 0; b < plan_.elements.size(); ++b)
            for (std::size_t k = 0; k < plan_.collectives.size(); ++k)
                parts_.push_back(plan_.part(b, k));
        if (plan_.fused_rate.count >= network_.largest_capacity().count) plan_.fused_rate = {0};
    }
    CollectiveReplay(const CollectiveReplay&) = delete;  // events point at it
    CollectiveReplay& operator=(const CollectiveReplay&) = delete;

    [[nodiscard]] int actors() const { return stage_.actors(); }
    /// Allows `actor` to begin its first `count` buckets. The task `reduced` is run with the actor
    /// after each of them; it may post events, and nothing else.
    void queue(int actor, std::int64_t count) {
        Actor& a = actors_[static_cast<std::size_t>(actor)];
        if (count <= a.queued) return;
        a.queued = count;
        if (skipping_) return;  // every actor is amid a bucket until then
        make_ready(static_cast<std::size_t>(actor));
        settle();
    }
    [[nodiscard]] std::int64_t reduced(int actor) const {
        return actors_[static_cast<std::size_t>(actor)].reduced;
    }
    /// Whether a bucket of this actor is queued or in flight.
    [[nodiscard]] bool working(int actor) const {
        const Actor& a = actors_[static_cast<std::size_t>(actor)];
        return a.reduced < a.queued;
    }
    [[nodiscard]] std::uint64_t messages() const {  ///< of all ranks
        return messages_ * static_cast<std::uint64_t>(stage_.images());
    }
    [[nodiscard]] std::uint64_t simulated() const { return network_.messages(); }
    [[nodiscard]] Bytes wire() const { return {far_bytes_ * stage_.images()}; }
    [[nodiscard]] double peak_load() const {
        double peak = 0;
        for (int link = 0; link < network_.links(); ++link)
            peak = std::max(peak, network_.peak_load(link));
        return peak;
    }

private:
    struct Actor {
        std::int64_t queued = 0, packed = 0, reduced = 0;
        bool packs = false;
        std::size_t ended = 0;  // members that are done with the present bucket
    };
    struct Member {
        std::int64_t bucket = 0;
        int step = -1, from = -1, to = -1;  // actors
        bool sending = false, receiving = false, arrived = false;
    };

    static constexpr int after_arrivals = std::numeric_limits<int>::max() - 1;

    static void arrived_event(void* self, std::uint64_t member) {
        static_cast<CollectiveReplay*>(self)->arrived(static_cast<std::size_t>(member));
    }
    static void instant_event(void* self, std::uint64_t) {
        static_cast<CollectiveReplay*>(self)->end_of_instant();
    }
    static void packed_event(void* self, std::uint64_t actor) {
        static_cast<CollectiveReplay*>(self)->packed(static_cast<std::size_t>(actor));
    }
    static void unpacked_event(void* self, std::uint64_t actor) {
        static_cast<CollectiveReplay*>(self)->end_reduction(static_cast<std::size_t>(actor));
        static_cast<CollectiveReplay*>(self)->settle();
    }
    static void skipped_event(void* self, std::uint64_t) {
        static_cast<CollectiveReplay*>(self)->skipping_ = false;
        static_cast<CollectiveReplay*>(self)->settle();
    }

    /// The member of the same collective at another actor.
    [[nodiscard]] std::size_t at_actor(std::size_t member, int actor) const {
        return member / actors_.size() * actors_.size() + static_cast<std::size_t>(actor);
    }
    [[nodiscard]] std::int64_t size_of(std::size_t k, std::int64_t bucket, int chunk,
                                       int several) const {
        const int chunks = plan_.collectives[k].chunks();
        const auto b = static_cast<std::size_t>(bucket) % plan_.elements.size();
        const std::int64_t part = parts_[b * plan_.collectives.size() + k];
        const std::int64_t elements = collapsed_ ? chunk_range(part, chunks, 0).size() * several
                                                 : chunk_range(part, chunks, chunk, several).size();
        return elements * plan_.element_bytes;
    }
    void make_ready(std::size_t actor) {
        for (std::size_t m = actor; m < members_.size(); m += actors_.size()) ready_.push_back(m);
    }
    void arrived(std::size_t sender) {
        --under_way_;
        members_[sender].arrived = true;
        if (!collapsed_) {
            meet(sender);
            return settle();
        }
        arrivals_.push_back(sender);
        if (arrivals_.size() == 1)
            engine_.at(engine_.now(), after_arrivals, {instant_event, this, 0});
    }
    void meet(std::size_t sender) {  // a receiver that is not there yet will look when it comes
        const std::size_t receiver = at_actor(sender, members_[sender].to);
        const Member &s = members_[sender], &r = members_[receiver];
        if (s.arrived && r.step == s.step && r.bucket == s.bucket) deliver(sender, receiver);
    }
    void deliver(std::size_t sender, std::size_t receiver) {
        members_[sender].sending = members_[sender].arrived = false;
        members_[receiver].receiving = false;
        ready_.push_back(sender);
        ready_.push_back(receiver);
    }
    void settle() {  // a list, not recursion: one arrival can free a whole ring
        while (!ready_.empty()) {
            const std::size_t m = ready_.back();
            ready_.pop_back();
            while (!members_[m].sending && !members_[m].receiving && enter_next_step(m)) {
            }
        }
    }
    void end_of_instant() {
        for (const std::size_t sender : arrivals_) meet(sender);
        arrivals_.clear();
        const Nanoseconds skipped = under_way_ == 0 ? skip_laps() : Nanoseconds(0);
        if (skipped.count() == 0) return settle();
        skipping_ = true;
        engine_.at(engine_.now() + skipped, after_arrivals, {skipped_event, this, 0});
    }
    [[nodiscard]] static Nanoseconds time_of(const std::vector<Nanoseconds>& kernels,
                                             std::int64_t bucket) {
        return kernels.empty() ? Nanoseconds(0)
                               : kernels[static_cast<std::size_t>(bucket) % kernels.size()];
    }
    void packed(std::size_t actor) {
        Actor& a = actors_[actor];
        a.packs = false;
        a.packed = a.reduced + 1;
        make_ready(actor);
        settle();
    }
    bool pack(std::size_t actor);
    void end_reduction(std::size_t actor) {
        ++actors_[actor].reduced;
        reduced_.run(reduced_.context, actor);
        make_ready(actor);
    }
    bool enter_next_step(std::size_t m);
    void end_bucket(Member& member, std::size_t actor);
    void send(std::size_t m, int rank, const Exchange& e, std::int64_t bytes);
    Nanoseconds skip_laps();
    int end_of_phase();

    ReductionPlan<C> plan_;
    Engine& engine_;
    FlowNetwork network_;
    RepresentativeMachine stage_;
    bool collapsed_, skipping_ = false;
    Task reduced_;
    std::vector<std::int64_t> parts_{};  // parts_[bucket, collective], in elements
    std::vector<Actor> actors_;
    std::vector<Member> members_;
    std::vector<std::size_t> ready_{}, arrivals_{};
    CycleDetector laps_{};
    std::vector<std::int64_t> state_{};
    std::uint64_t messages_ = 0;  // of the actors
    std::int64_t far_bytes_ = 0;  // of these, between machines
    std::int64_t under_way_ = 0;  // messages that have not arrived
};

/// Whether the kernels before the actor's next bucket are done; begins them.
template <Collective C>
bool CollectiveReplay<C>::pack(std::size_t actor) {
    Actor& a = actors_[actor];
    if (a.packed > a.reduced) return true;
    if (a.packs) return false;
    const Nanoseconds time = time_of(plan_.before, a.reduced);
    a.packs = time.count() > 0;
    if (a.packs)
        engine_.at(engine_.now() + time, static_cast<int>(actor), {packed_event, this, actor});
    else a.packed = a.reduced + 1;
    return !a.packs;
}

template <Collective C>
bool CollectiveReplay<C>::enter_next_step(std::size_t m) {
    const std::size_t k = m / actors_.size(), actor = m % actors_.size();
    const C& collective = plan_.collectives[k];
    Member& self = members_[m];
    if (self.step < 0 && (actors_[actor].queued <= self.bucket ||
                          actors_[actor].reduced < self.bucket || !pack(actor)))
        return false;
    if (++self.step == collective.steps()) {
        end_bucket(self, actor);
        return false;
    }
    const int rank = static_cast<int>(actor);  // rank 0, 1, ... also where these stand for all
    const Exchange e = collective.exchange(rank, self.step);
    const std::int64_t out = e.to < 0 ? 0 : size_of(k, self.bucket, e.send_chunk, e.chunks);
    self.sending = out > 0;  // an empty chunk is empty on both sides: no message
    self.receiving = e.from >= 0 && size_of(k, self.bucket, e.receive_chunk, e.chunks) > 0;
    self.to = e.to < 0 ? -1 : stage_.actor_of(e.to);
    self.from = e.from < 0 ? -1 : stage_.actor_of(e.from);
    if (self.sending) send(m, rank, e, out);
    if (self.receiving) {
        const std::size_t sender = at_actor(m, self.from);
        const Member& s = members_[sender];
        if (s.arrived && s.step == self.step && s.bucket == self.bucket) deliver(sender, m);
    }
    return true;
}

template <Collective C>
void CollectiveReplay<C>::end_bucket(Member& member, std::size_t actor) {
    ++member.bucket;
    member.step = -1;
    Actor& a = actors_[actor];
    if (++a.ended < plan_.collectives.size()) return;
    a.ended = 0;
    const Nanoseconds time = time_of(plan_.after, a.reduced);
    if (time.count() == 0) return end_reduction(actor);
    engine_.at(engine_.now() + time, static_cast<int>(actor), {unpacked_event, this, actor});
}

template <Collective C>
void CollectiveReplay<C>::send(std::size_t m, int rank, const Exchange& e, std::int64_t bytes) {
    Topology::Route route = stage_.route(rank, e.to, static_cast<int>(m / actors_.size()));
    route.cap = lower_cap(route.cap, plan_.fused_rate);
    ++messages_;
    ++under_way_;
    if (stage_.leaves_machine(rank, e.to)) far_bytes_ += bytes;
    network_.start({.path = route.path,
                    .bytes = {bytes},
                    .latency = route.latency,
                    .cap = route.cap,
                    .rank = rank,
                    .done = {arrived_event, this, static_cast<std::uint64_t>(m)}});
}

/// The step at which steps of the present kind end, where all members are among them; else 0.
template <Collective C>
int CollectiveReplay<C>::end_of_phase() {
    if constexpr (requires(const C& c) {
                      { c.phase_end(int{}) } -> std::same_as<int>;
                  }) {
        int end = 0;
        for (std::size_t m = 0; m < members_.size(); ++m) {
            const Member& self = members_[m];
            if (self.step < 0 || self.bucket != members_[0].bucket) return 0;
            const int own = plan_.collectives[m / actors_.size()].phase_end(self.step);
            if (end != 0 && own != end) return 0;
            end = own;
        }
        return end;
    }
    return 0;
}

/// With no message in flight, looks for a cycle of the members' steps. Advances them by as many
/// cycles as fit into the phase; returns the time of these.
template <Collective C>
Nanoseconds CollectiveReplay<C>::skip_laps() {
    const int end = end_of_phase();
    if (end == 0) return {};
    const int first = members_[0].step;
    int last = first;
    state_.assign({members_[0].bucket, end});
    for (const Member& m : members_) {
        last = std::max(last, m.step);
        state_.push_back(std::int64_t{m.step - first} * 8 + m.sending * 4 + m.receiving * 2 +
                         m.arrived);
    }
    const CycleDetector::Counts lap =
        laps_.see(state_, {first, engine_.now(), messages_, far_bytes_});
    const std::int64_t laps = lap.step > 0 ? (end - 1 - last) / lap.step : 0;
    if (laps <= 0) return {};
    for (Member& m : members_) m.step += static_cast<int>(laps * lap.step);
    messages_ += static_cast<std::uint64_t>(laps) * lap.messages;
    far_bytes_ += laps * lap.far_bytes;
    laps_.forget();
    return laps * lap.time;
}

}  // namespace gx::sim
