// GraphFault: faults of a network at an image size, as sentences that name layers.
#pragma once

#include <array>        // sentences
#include <cstddef>      // size_t
#include <cstdint>      // uint8_t
#include <string_view>  // sentences

#include <gx/core/label.hpp>     // Label
#include <gx/model/op_kind.hpp>  // OpKind

namespace gx {

enum class GraphFault : std::uint8_t {
    none,
    empty_image,
    too_few_classes,
    image_too_small,
    bad_window,
    uneven_pool,
    bad_groups,
    input_not_flat,
    shapes_differ,
    bad_rate,
    logits_not_classes,
    window_on_flat,
    sequence_too_long,
    not_its_features
};
[[nodiscard]] constexpr std::string_view to_string(GraphFault fault) {
    constexpr std::array<std::string_view, 14> sentences{
        "nothing is wrong",
        "an image needs at least one channel, row and column",
        "a classifier needs at least two classes",
        "the image is too small for a window of the network: use a larger image or a network with "
        "fewer stages",
        "a layer needs at least one output, a window and a stride of at least 1, and a pooling "
        "pads by half its window at most",
        "the image does not divide into the pooled grid: use an image size that does",
        "convolution groups must divide the channels going in and coming out",
        "a linear layer takes a flat input: flatten first",
        "a residual add needs two tensors of one shape",
        "a share that is dropped, or smoothed away, is at least 0 and below 1",
        "the network must end in one logit for each class",
        "a convolution or a pooling reads a flat input: put it before the Flatten or Linear",
        "the sequence has more tokens than the network has positions: use a shorter one",
        "the layers before this part of the network make no such features of any image: give those "
        "of the same network"};
    return sentences[static_cast<std::size_t>(fault)];
}

/// Text of at most 255 characters, built while a program compiles; longer text is cut.
class FaultText {
public:
    constexpr FaultText& operator<<(std::string_view text) {
        for (const char c : text)
            if (length_ < text_.size()) text_[length_++] = c;
        return *this;
    }
    constexpr FaultText& operator<<(int number) {
        if (number < 0) return *this << "-" << -number;
        if (number >= 10) *this << number / 10;
        const char digit = static_cast<char>('0' + number % 10);
        return *this << std::string_view(&digit, 1);
    }
    [[nodiscard]] constexpr std::string_view view() const { return {text_.data(), length_}; }

private:
    std::array<char, 255> text_{};
    std::size_t length_ = 0;
};

/// The first fault, and the operation where it lies.
struct GraphTrouble {
    GraphFault fault = GraphFault::none;
    Label at{};                   ///< the layer, as its parameters are named
    OpKind kind = OpKind::input;  ///< `input` too where a layer calls require() itself
    int operation = 0;            ///< index in Graph::ops
    std::array<int, 2> input{};   ///< height and width; 0: unknown
    std::array<int, 2> window{};  ///< height and width; 0: it has none

    /// "layer '7' (max_pool, operation 9): 1x1 input for a 2x2 window".
    [[nodiscard]] constexpr FaultText where() const {
        FaultText text;
        text << "layer '" << at.view() << "' (";
        if (kind != OpKind::input) text << to_string(kind) << ", ";
        text << "operation " << operation << ")";
        if (window[0] > 0)
            text << ": " << input[0] << "x" << input[1] << " input for a " << window[0] << "x"
                 << window[1] << " window";
        else if (input[0] > 0) text << ": " << input[0] << "x" << input[1] << " input";
        return text;
    }
    /// The fault's sentence, then where().
    [[nodiscard]] constexpr FaultText text() const {
        FaultText all;
        all << to_string(fault) << ". At " << where().view();
        return all;
    }
};

}  // namespace gx
