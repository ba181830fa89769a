// Exchange: one rank's send and receive in one step of a collective, as a value.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // int64_t

namespace gx {

enum class Combine : unsigned char {
    add,  ///< mine = mine + received, rounded to the wire's element
    copy  ///< mine = received
};

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

}  // namespace collective
}  // namespace gx
