// Exchange, Collective, Promise: a rank's part in a step; schedules; what they achieve.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // int64_t

namespace gx {

/// Both sums are rounded to the wire's element, and have one value; of two NaNs the first operand
/// stays. So where two ranks swap sums of a chunk, one of them adds to what it received.
enum class Combine : unsigned char {
    add,              ///< mine = mine + received
    add_to_received,  ///< mine = received + mine; costs a copy of it
    copy              ///< mine = received
};
[[nodiscard]] constexpr bool adds(Combine c) { return c != Combine::copy; }

/// Destination and chunk sent, source and chunk received, and how it is combined. Rank -1: none.
/// A message may hold several consecutive chunks: `chunks` of them, from the one given.
struct Exchange {
    int to = -1;
    int send_chunk = -1;
    int from = -1;
    int receive_chunk = -1;
    Combine combine = Combine::copy;
    int chunks = 1;
    constexpr bool operator==(const Exchange&) const = default;
};

/// Chunk c of n, over `count` elements: sizes differ by at most one, larger chunks first.
struct ChunkRange {
    std::int64_t begin = 0, end = 0;
    [[nodiscard]] constexpr std::int64_t size() const { return end - begin; }
};
[[nodiscard]] constexpr ChunkRange chunk_range(std::int64_t count, int chunks, int chunk) {
    const std::int64_t base = count / chunks, larger = count % chunks;
    const auto begin_of = [&](std::int64_t c) { return c * base + (c < larger ? c : larger); };
    return {begin_of(chunk), begin_of(chunk + 1)};
}
/// `several` chunks from `first` on, as one range.
[[nodiscard]] constexpr ChunkRange chunk_range(std::int64_t count, int chunks, int first,
                                               int several) {
    return {chunk_range(count, chunks, first).begin,
            chunk_range(count, chunks, first + several - 1).end};
}

/// A communication schedule as pure constexpr functions, generated step by step and never stored.
/// In every step a rank sends its chunk as it was before the step.
template <class C>
concept Collective = requires(const C& c) {
    { c.ranks() } -> std::same_as<int>;
    { c.chunks() } -> std::same_as<int>;
    { c.steps() } -> std::same_as<int>;
    { c.exchange(int{}, int{}) } -> std::same_as<Exchange>;  // (rank, step)
};

/// What a collective leaves on its ranks: a property of its type. A rank that owns a chunk names it
/// as owned_chunk(rank); each chunk has one owner.
enum class Promise : unsigned char {
    all_reduce,      ///< every rank: every chunk, summed over all ranks
    reduce_scatter,  ///< every rank: its own chunk, summed over all ranks; other chunks unspecified
    all_gather,      ///< every rank: each chunk as its owner had it
    broadcast,       ///< every rank: each chunk as rank root() had it
    gather,          ///< rank root(): each chunk as its owner had it; other ranks unspecified
    all_to_all,      ///< rank r: in chunk i what rank i had in chunk r; as many chunks as ranks
    barrier          ///< no data: that every rank has begun happens-before any rank ends
};

[[nodiscard]] constexpr bool adds(Promise p) {
    return p == Promise::all_reduce || p == Promise::reduce_scatter;
}
[[nodiscard]] constexpr bool has_owners(Promise p) {
    return p == Promise::reduce_scatter || p == Promise::all_gather || p == Promise::gather;
}
[[nodiscard]] constexpr bool has_root(Promise p) {
    return p == Promise::broadcast || p == Promise::gather;
}

namespace collective::detail {
template <class C>
concept NamesItsPromise = requires {
    { C::promise } -> std::same_as<const Promise&>;
};
template <class C>
concept NamesItsOwners = !has_owners(C::promise) || requires(const C& c) {
    { c.owned_chunk(int{}) } -> std::same_as<int>;  // (rank)
};
template <class C>
concept NamesItsRoot = !has_root(C::promise) || requires(const C& c) {
    { c.root() } -> std::same_as<int>;
};
}  // namespace collective::detail

/// A collective that names its promise, as `static constexpr Promise promise`. It has the owners or
/// the root that the promise speaks of. prove() in proof.hpp checks the promise.
template <class C>
concept PromisingCollective =
    Collective<C> && collective::detail::NamesItsPromise<C> &&
    collective::detail::NamesItsOwners<C> && collective::detail::NamesItsRoot<C>;

template <class C>
consteval bool explain_promise() {
    static_assert(
        Collective<C>,
        "gx: not a Collective: no 'int ranks() const', 'chunks()', 'steps()' or 'Exchange "
        "exchange(int rank, int step) const'. Fix: add the four; they are pure functions.");
    static_assert(collective::detail::NamesItsPromise<C>,
                  "gx: a collective without a promise: prove() does not know what to check. Fix: "
                  "add 'static constexpr gx::Promise promise = gx::Promise::all_reduce;'.");
    static_assert(
        collective::detail::NamesItsOwners<C>,
        "gx: a collective whose ranks own chunks has no 'int owned_chunk(int rank) const'. "
        "Fix: add it; the chunks of all ranks are all chunks, each once.");
    static_assert(collective::detail::NamesItsRoot<C>,
                  "gx: a collective with a root has no 'int root() const'. Fix: add it.");
    return true;
}

namespace collective {

/// Chunks in the largest message of a collective; 1 unless it declares otherwise.
template <Collective C>
[[nodiscard]] constexpr int message_chunks(const C& c) {
    if constexpr (requires {
                      { c.message_chunks() } -> std::same_as<int>;
                  })
        return c.message_chunks();
    else return 1;
}

/// The part of `count` elements that `rank` owns: after a reduce-scatter its sums, before an
/// all-gather its contribution. Empty for some ranks where there are fewer elements than chunks.
template <PromisingCollective C>
    requires(has_owners(C::promise))
[[nodiscard]] constexpr ChunkRange owned_range(const C& c, std::int64_t count, int rank) {
    return chunk_range(count, c.chunks(), c.owned_chunk(rank));
}

}  // namespace collective
}  // namespace gx
