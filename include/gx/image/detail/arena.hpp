// Arena: memory of one image after another, kept in between.
#pragma once

#include <algorithm>  // max
#include <cstddef>    // size_t
#include <memory>     // unique_ptr
#include <new>        // nothrow
#include <vector>     // blocks

namespace gx::detail::image {

/// Bump allocator. What it gave out is free at reset(), which joins the blocks of a larger image
/// than before into one; an image that is no larger allocates nothing.
class Arena {
public:
    static constexpr std::size_t alignment = 64;

    /// Returns nullptr where there is no memory.
    [[nodiscard]] void* allocate(std::size_t bytes) noexcept {
        if (bytes > ~std::size_t{0} / 2) return nullptr;
        bytes = (bytes + alignment - 1) / alignment * alignment;
        if (blocks_.empty() || blocks_.back().bytes - used_ < bytes) {
            if (!add(std::max(bytes, smallest))) return nullptr;
        }
        std::byte* const at = blocks_.back().memory.get() + used_;
        used_ += bytes;
        return at;
    }
    void reset() noexcept {
        if (blocks_.size() > 1) {
            std::size_t total = 0;
            for (const Block& block : blocks_) total += block.bytes;
            blocks_.clear();
            add(total);
        }
        used_ = 0;
    }
    [[nodiscard]] std::size_t bytes() const {
        std::size_t total = 0;
        for (const Block& block : blocks_) total += block.bytes;
        return total;
    }

private:
    static constexpr std::size_t smallest = std::size_t{1} << 16;
    struct Delete {
        void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{alignment}); }
    };
    struct Block {
        std::unique_ptr<std::byte[], Delete> memory;
        std::size_t bytes;
    };

    bool add(std::size_t bytes) noexcept {
        try {
            blocks_.push_back({std::unique_ptr<std::byte[], Delete>(static_cast<std::byte*>(
                                   ::operator new[](bytes, std::align_val_t{alignment}))),
                               bytes});
        } catch (const std::bad_alloc&) {
            return false;
        }
        used_ = 0;
        return true;
    }

    std::vector<Block> blocks_;
    std::size_t used_ = 0;  // of the last block
};

}  // namespace gx::detail::image
