// Levels<Inner, Outer>: a reducer among the ranks of each machine, and one between machines.
#pragma once

#include <algorithm>    // copy, max
#include <concepts>     // same_as
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <optional>     // groups
#include <span>         // buffers
#include <string>       // name
#include <type_traits>  // conditional_t

#include <gx/collective/execute.hpp>          // execute
#include <gx/collective/group.hpp>            // Group, Members
#include <gx/collective/ring_all_gather.hpp>  // RingAllGather
#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/core/element.hpp>                // fp32
#include <gx/core/error.hpp>                  // Error
#include <gx/core/transport.hpp>              // SharesMemory
#include <gx/memory/queue.hpp>                // Link
#include <gx/reducer/accuracy.hpp>            // accuracy
#include <gx/reducer/concept.hpp>             // explain_reducer, Bucket, ReduceReport
#include <gx/reducer/name.hpp>                // reducer_name
#include <gx/reducer/pipeline.hpp>            // works_in_place

namespace gx::detail::hierarchical {

/// The ranks of one machine as a transport. They share memory where all ranks of all machines do,
/// or those of each machine. Ranks are placed regularly, and every machine calls share() equally
/// often.
template <Link T>
class MachineGroup : public collective::Group<T> {
public:
    MachineGroup(T& whole, const collective::Members& machine)
        : collective::Group<T>(whole, machine) {}

    [[nodiscard]] bool shares_memory() const
        requires SharesMemory<T>
    {
        return machine_shares_memory(this->under());
    }
    Delivery share(int channel, std::span<std::byte> mine, SharedWork work)
        requires SharesMemory<T>
    {
        const auto on_machine = [&](std::span<const std::span<std::byte>> all) {
            const int first = this->under().shares_memory() ? this->members().at(0) : 0;
            work(all.subspan(static_cast<std::size_t>(first), size()));
        };
        return this->under().share(channel, mine, on_machine);
    }
    /// The last rank of all that share comes after the last of its machine. So it works for each
    /// machine.
    Delivery share_by_last(int channel, std::span<std::byte> mine, SharedWork work)
        requires requires(T& t) { t.share_by_last(channel, mine, work); }
    {
        const auto on_each = [&](std::span<const std::span<std::byte>> all) {
            for (std::size_t first = 0; first < all.size(); first += size())
                work(all.subspan(first, size()));
        };
        return this->under().share_by_last(channel, mine, on_each);
    }
    [[nodiscard]] bool shares_cores() const
        requires requires(const T& t) { t.shares_cores(); }
    {
        return this->under().shares_cores();
    }

private:
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(this->ranks()); }
};

/// Whether R works in the memory of T.
template <class R, class T>
concept ReducesOn = requires(R& r, T& link, const BucketOn<T>& bucket) {
    { r.all_reduce(link, bucket) } -> std::same_as<ReduceReport>;
};

template <class R>
consteval bool explain_level() {
    static_assert(explain_reducer<R>());
    static_assert(R::staleness == 0,
                  "gx: a level of Hierarchical with a stale gradient: the other level needs the "
                  "mean of this step. Fix: the other way about, as in "
                  "'DoubleBuffered<Hierarchical<SharedMemory<>, Ring<>>>'.");
    static_assert(!reducer::ClaimsTheUpdate<R>,
                  "gx: a level of Hierarchical that owns the update: it would update parameters "
                  "by the mean of a few ranks. Fix: 'LocalSgd<Hierarchical<SharedMemory<>, "
                  "Ring<>>, 4>', or Sharded of one reducer without levels, as in "
                  "'Sharded<Ring<>>'.");
    static_assert(accuracy<R>() == Accuracy::rounded,
                  "gx: a level of Hierarchical that compresses: what it keeps of a gradient would "
                  "not be of one rank's. Fix: name reducers that send every value, such as Ring, "
                  "HalvingDoubling or SharedMemory.");
    return true;
}

template <class Inner, class Outer>
class Levels {
    static_assert(explain_level<Inner>() && explain_level<Outer>());
    using In = typename Inner::wire_type;
    using Out = typename Outer::wire_type;
    static_assert(std::same_as<In, Out> || std::same_as<In, fp32> || std::same_as<Out, fp32>,
                  "gx: the levels of Hierarchical have two 16-bit wires, and a loss scale is "
                  "chosen for one range. Fix: use one of them in both, or fp32 in one.");

public:
    using wire_type = std::conditional_t<std::same_as<In, fp32>, Out, In>;
    static constexpr int channels = std::max(Inner::channels, Outer::channels);
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = Inner::asynchronous && Outer::asynchronous;
    static constexpr bool repeats_work = RepeatsWork<Inner> && RepeatsWork<Outer>;
    static constexpr bool works_in_place = reducer::works_in_place<Inner>();

    [[nodiscard]] static std::string name() {
        return "Hierarchical<" + reducer_name<Inner>() + ", " + reducer_name<Outer>() + ">";
    }

    void reserve(const ReducePlan& plan) {
        const Placement p = plan.placement;
        if (!p.regular())
            throw Error(name() +
                        " needs equally many ranks on each machine, one machine after the other, "
                        "and this world has not: start it so, or reduce by Ring or DoubleTree");
        GX_EXPECT(plan.bucket_elements >= 0, "a bucket has at least 0 elements");
        plan_ = plan;
        rank_ = -1;
        machine_.reset(), across_.reset();
        ReducePlan level = plan;
        level.placement = {1, p.ranks_per_machine};
        inner_.reserve(level);
        level.placement = {p.machines, 1};
        level.bucket_elements = chunk_range(plan.bucket_elements, p.ranks_per_machine, 0).size();
        outer_.reserve(level);
    }

    template <Link T>
        requires ReducesOn<Inner, MachineGroup<T>> && ReducesOn<Outer, collective::Group<T>>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        const Placement p = plan_.placement;
        GX_EXPECT(link.placement() == p, "reserve() for the placement it will run on");
        GX_EXPECT(static_cast<std::int64_t>(bucket.size()) <= plan_.bucket_elements,
                  "a bucket larger than was reserved");
        if (p.machines == 1) return inner_.all_reduce(link, bucket);
        if (p.ranks_per_machine == 1) return outer_.all_reduce(link, bucket);
        find_groups(link.rank());
        MachineGroup machine(link, *machine_);
        collective::Group across(link, *across_);
        ReduceReport sum = inner_.all_reduce(machine, bucket);
        if (!sum.complete()) return sum;
        const ChunkRange own = shard(bucket.size(), machine.rank());
        add(sum, outer_.all_reduce(across, bucket.part(static_cast<std::size_t>(own.begin),
                                                       static_cast<std::size_t>(own.size()))));
        if (sum.complete()) add(sum, gather(machine, bucket));
        return sum;
    }
    StateList state() { return {}; }

private:
    [[nodiscard]] ChunkRange shard(std::size_t length, int local_rank) const {
        return chunk_range(static_cast<std::int64_t>(length), plan_.placement.ranks_per_machine,
                           local_rank);
    }
    static void add(ReduceReport& sum, const ReduceReport& more) {
        sum = {more.delivery, sum.bytes_sent + more.bytes_sent, sum.steps + more.steps};
    }
    /// In the first reduction, as reserve() does not know the rank.
    void find_groups(int rank) {
        if (rank == rank_) return;
        const Placement p = plan_.placement;
        machine_.emplace(collective::Members::of_machine(p, p.node_of(rank)));
        across_.emplace(collective::Members::across_machines(p, p.local_rank(rank)));
        rank_ = rank;
    }
    /// Shards of all ranks of a machine, in floats, to all of them.
    template <class T>
    ReduceReport gather(MachineGroup<T>& machine, const BucketOn<T>& bucket) {
        if constexpr (SharesMemory<T>)
            if (machine.shares_memory())
                return {machine.share(0, std::as_writable_bytes(bucket.values),
                                      [&](std::span<const std::span<std::byte>> all) {
                                          copy_shards(all, bucket, machine.rank());
                                      })};
        const collective::RingAllGather ring(machine.ranks());
        const collective::Execution done = collective::execute(
            machine,
            collective::Flow<fp32, collective::RingAllGather, memory_of<T>>{ring, bucket.values});
        return {done.delivery, done.bytes_sent, done.steps};
    }
    /// Each rank reads what others do not write: every shard where its owner has it.
    void copy_shards(std::span<const std::span<std::byte>> all, const Bucket& bucket,
                     int rank) const {
        for (int r = 0; r < plan_.placement.ranks_per_machine; ++r) {
            if (r == rank) continue;
            const ChunkRange s = shard(bucket.size(), r);
            const auto first = static_cast<std::size_t>(s.begin) * sizeof(float),
                       bytes = static_cast<std::size_t>(s.size()) * sizeof(float);
            const auto i = static_cast<std::size_t>(r), own = static_cast<std::size_t>(rank);
            std::ranges::copy(all[i].subspan(first, bytes), all[own].subspan(first).begin());
        }
    }

    ReducePlan plan_{.placement = {0, 0}};
    Inner inner_{};
    Outer outer_{};
    int rank_ = -1;  ///< whose groups these are
    std::optional<collective::Members> machine_{}, across_{};
};

}  // namespace gx::detail::hierarchical
