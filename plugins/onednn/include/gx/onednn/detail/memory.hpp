// memory: zeroed, aligned blocks, large ones on 2 MiB pages; packing by lifetimes.
#pragma once

#include <sys/mman.h>  // mmap, madvise

#include <algorithm>  // sort, max
#include <atomic>     // count of allocations
#include <cstdint>    // int64_t
#include <new>        // bad_alloc
#include <numeric>    // iota
#include <span>       // intervals
#include <utility>    // exchange

#include <gx/core/cold.hpp>            // GX_COLD
#include <gx/core/trivial_vector.hpp>  // order

namespace gx::onednn::detail {

/// Number of blocks allocated by this process; a step without allocation leaves it unchanged.
inline std::atomic<std::int64_t>& blocks_allocated() {
    static std::atomic<std::int64_t> count{0};
    return count;
}

/// A block of floats, all zero at first. From 2 MiB on it requests 2 MiB pages, which saves the
/// page faults and most of the address translation of a step.
class Memory {
public:
    Memory() = default;
    GX_COLD explicit Memory(std::int64_t floats) : floats_(floats) {
        if (floats == 0) return;
        bytes_ = (static_cast<std::size_t>(floats) * sizeof(float) + small_page - 1) / small_page *
                 small_page;
        const bool large = bytes_ >= large_page;
        const std::size_t mapped = bytes_ + (large ? large_page : 0);
        void* raw =
            ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (raw == MAP_FAILED) throw std::bad_alloc();
        auto begin = reinterpret_cast<std::uintptr_t>(raw);
        if (large) {  // keep the aligned part only
            const auto aligned = (begin + large_page - 1) / large_page * large_page;
            if (aligned != begin) ::munmap(raw, aligned - begin);
            const auto tail = begin + mapped - (aligned + bytes_);
            if (tail != 0) ::munmap(reinterpret_cast<void*>(aligned + bytes_), tail);
            begin = aligned;
            ::madvise(reinterpret_cast<void*>(begin), bytes_, MADV_HUGEPAGE);
        }
        data_ = reinterpret_cast<float*>(begin);
        blocks_allocated().fetch_add(1, std::memory_order_relaxed);
    }
    Memory(Memory&& m) noexcept
        : data_(std::exchange(m.data_, nullptr)),
          floats_(std::exchange(m.floats_, 0)),
          bytes_(std::exchange(m.bytes_, 0)) {}
    Memory& operator=(Memory&& m) noexcept {
        std::swap(data_, m.data_);
        std::swap(floats_, m.floats_);
        std::swap(bytes_, m.bytes_);
        return *this;
    }
    ~Memory() {
        if (data_ != nullptr) ::munmap(data_, bytes_);
    }

    [[nodiscard]] float* data() const { return data_; }
    [[nodiscard]] std::int64_t size() const { return floats_; }
    [[nodiscard]] std::span<float> span() const {
        return {data_, static_cast<std::size_t>(floats_)};
    }

private:
    static constexpr std::size_t small_page = 4096, large_page = std::size_t{2} << 20;
    float* data_ = nullptr;
    std::int64_t floats_ = 0;
    std::size_t bytes_ = 0;
};

/// A buffer that is needed from segment `first` to segment `last`, both included.
struct Interval {
    std::int64_t floats = 0;
    int first = 0, last = 0;
    std::int64_t offset = 0;  ///< result of pack()
};

/// Assigns offsets so that no two intervals alive at once overlap; returns the floats needed.
/// Largest first, each at the lowest offset that is free for its whole life.
GX_COLD inline std::int64_t pack(std::span<Interval> intervals) {
    constexpr std::int64_t grain = 64;  // 256 bytes, so that vectors never share a cache line
    TrivialVector<std::size_t> order(intervals.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        if (intervals[a].floats != intervals[b].floats)
            return intervals[a].floats > intervals[b].floats;
        return a < b;
    });
    TrivialVector<const Interval*> placed;  // by offset
    std::int64_t total = 0;
    for (const std::size_t i : order) {
        Interval& mine = intervals[i];
        const std::int64_t need = (mine.floats + grain - 1) / grain * grain;
        std::int64_t at = 0;
        for (const Interval* other : placed) {
            if (other->last < mine.first || mine.last < other->first) continue;
            if (other->offset >= at + need) break;
            at = std::max(at, other->offset + (other->floats + grain - 1) / grain * grain);
        }
        mine.offset = at;
        total = std::max(total, at + need);
        placed.insert(std::upper_bound(placed.begin(), placed.end(), &mine,
                                       [](auto* a, auto* b) { return a->offset < b->offset; }),
                      &mine);
    }
    return total;
}

}  // namespace gx::onednn::detail
