// all_gather_bytes, all_gather_offsets: all-gather of byte blocks of different lengths.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // int64_t
#include <span>     // blocks

#include <gx/collective/execute.hpp>          // execute, raw_bytes
#include <gx/collective/ring_all_gather.hpp>  // RingAllGather
#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/core/transport.hpp>              // Transport

namespace gx::collective {

/// Gathers a block of bytes from every rank on every rank, in the order of the ranks: values with
/// their indices, numbers with their scales. All ranks know all lengths; where they do not, call
/// all_gather_offsets first.
///
/// Shapes: offsets (ranks + 1), equal on all ranks: rank r's block goes to all[offsets[r]] up to
///         all[offsets[r + 1]]. `mine` has that length; it is that part of `all`, or apart from it.
///         Blocks may be empty: such a block sends no message.
/// Errors: offsets that do not ascend, do not fit `mine`, or end behind `all` break the contract.
///         An incomplete delivery as in execute(): `all` is then unspecified.
/// Wire:   a ring of n - 1 steps; rank r sends all blocks but that of rank r + 1.
/// Time:   (n - 1) (alpha + m beta), alpha a message, beta a byte, where m is the largest block: it
///         passes n - 1 hops one after the other. Equal blocks use the links best.
/// Cost:   allocates nothing; one copy of `mine`, unless it is in place.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH", ring all-gather.
template <Link T>
Execution all_gather_bytes(T& link, ViewIn<const std::byte, memory_of<T>> mine,
                           ViewIn<std::byte, memory_of<T>> all,
                           std::span<const std::int64_t> offsets, int channel) {
    const auto rank = static_cast<std::size_t>(link.rank());
    const Flow<raw_bytes, RingAllGather, memory_of<T>> flow{
        RingAllGather(link.ranks()), all, {}, channel, offsets};
    GX_EXPECT(!offsets.empty(), "an offset for each rank, and one for the end");
    detail::expect_valid(flow, link.ranks());
    const auto begin = static_cast<std::size_t>(offsets[rank]);
    const auto block = all.subspan(begin, static_cast<std::size_t>(offsets[rank + 1]) - begin);
    GX_EXPECT(mine.size() == block.size(), "a block as long as the offsets of its rank say");
    if (!same_place(mine, ViewIn<const std::byte, memory_of<T>>(block))) {
        constexpr kernels::CopyValues<std::byte> copy{};
        if constexpr (InHostMemory<T>) {
            if (channel < control_channel) launch(queue_of(link), copy, mine, block);
            else launch(HostQueue{}, copy, mine, block);  // the host's, on every world
        } else {
            launch(queue_of(link), copy, mine, block);
        }
    }
    return execute(link, flow);
}

/// Gathers the lengths of all blocks on every rank, as offsets for all_gather_bytes. All ranks get
/// the same offsets, so decisions made from them agree: to allocate offsets[ranks] bytes, to stop.
///
/// Shapes: offsets (ranks + 1), filled: offsets[0] = 0, offsets[r + 1] = offsets[r] + length of r.
/// Errors: a negative length breaks the contract. An incomplete delivery as in execute(): the
///         offsets are then unspecified.
/// Wire:   a ring of n - 1 steps of 8 bytes. Ranks share one order of bytes.
/// Time:   (n - 1) alpha for a message alpha: with the blocks after it, twice the latency.
/// Cost:   allocates nothing.
template <Transport T>
Execution all_gather_offsets(T& link, std::int64_t length, std::span<std::int64_t> offsets,
                             int channel) {
    GX_EXPECT(length >= 0, "a block has at least 0 bytes");
    GX_EXPECT(offsets.size() == static_cast<std::size_t>(link.ranks()) + 1,
              "an offset for each rank, and one for the end");
    const auto lengths = offsets.subspan(1);
    lengths[static_cast<std::size_t>(link.rank())] = length;
    const Execution done = execute(
        link, Flow<raw_bytes, RingAllGather>{
                  RingAllGather(link.ranks()), std::as_writable_bytes(lengths), {}, channel});
    offsets[0] = 0;
    if (!done.delivery.complete()) return done;
    for (std::size_t r = 0; r < lengths.size(); ++r) offsets[r + 1] += offsets[r];
    return done;
}

}  // namespace gx::collective
