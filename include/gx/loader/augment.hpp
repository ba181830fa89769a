// Data augmentation: PadCrop<4>, Flip; each moves the crop window of an image.
#pragma once

#include <array>        // random words
#include <concepts>     // same_as
#include <cstdint>      // uint32_t
#include <string_view>  // streams

namespace gx {

/// Crop window of the image's own size: pixel (y, x) shows (y + down, x + right) of the image, or
/// black outside of it; then left and right may swap.
struct View {
    int down = 0, right = 0;
    bool mirrored = false;
    constexpr bool operator==(const View&) const = default;
};

/// Four random words that depend on seed, epoch, sample and the augmentation's stream only: results
/// do not depend on ranks, threads or other augmentations.
using RandomWords = std::array<std::uint32_t, 4>;

/// Random change of a view.
template <class A>
concept Augmentation = requires(View view, const RandomWords& words) {
    { A::stream } -> std::convertible_to<std::string_view>;
    { A::move(view, words) } -> std::same_as<void>;
};

template <class A>
consteval bool explain_augmentation() {
    static_assert(Augmentation<A>,
                  "gx: not an Augmentation: no 'static constexpr string_view stream' or "
                  "'static void move(View&, const RandomWords&)'. "
                  "Fix: name one of gx/loader/augment.hpp, such as gx::PadCrop<4> or gx::Flip.");
    return true;
}

/// Pads the image by P black pixels on every side, and cuts out a window of its own size.
/// Source: He et al. 2015, arXiv:1512.03385, section 4.2 (P = 4).
template <int P>
struct PadCrop {
    static_assert(P >= 1,
                  "gx: PadCrop<P> needs at least one pixel. "
                  "Fix: write PadCrop<4>, or leave it out.");
    static constexpr std::string_view stream = "augment.pad_crop";
    static constexpr void move(View& view, const RandomWords& words) {
        constexpr std::uint64_t offsets = 2 * P + 1;  // the bias of x * n >> 32 is below n / 2^32
        view.down += static_cast<int>(words[0] * offsets >> 32) - P;
        view.right += static_cast<int>(words[1] * offsets >> 32) - P;
    }
};

/// Swaps left and right of every other image.
struct Flip {
    static constexpr std::string_view stream = "augment.flip";
    static constexpr void move(View& view, const RandomWords& words) {
        if (words[0] >> 31) view.mirrored = !view.mirrored;
    }
};

}  // namespace gx
