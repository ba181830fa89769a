// Findings: errors of options as a constexpr value; no allocation.
#pragma once

#include <array>        // sentences
#include <cstddef>      // size_t
#include <string_view>  // a sentence

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx {

/// Up to 16 error sentences, in the order they were found; literals, which are not copied.
/// Policies return them from `check(options)`: a constructor stops at the first, a program that
/// validates its options lists all. Problems collects sentences that are made at run time.
class Findings {
public:
    /// Adds `sentence` unless `good`.
    constexpr Findings& expect(bool good, std::string_view sentence) {
        if (!good) add(sentence);
        return *this;
    }
    constexpr Findings& append(const Findings& others) {
        for (const std::string_view sentence : others) add(sentence);
        return *this;
    }

    [[nodiscard]] constexpr bool empty() const { return count_ == 0; }
    /// The first sentence, or an empty one.
    [[nodiscard]] constexpr std::string_view first() const { return sentences_[0]; }
    [[nodiscard]] constexpr const std::string_view* begin() const { return sentences_.data(); }
    [[nodiscard]] constexpr const std::string_view* end() const { return begin() + count_; }

private:
    constexpr void add(std::string_view sentence) {
        GX_EXPECT(count_ < sentences_.size(), "at most 16 findings");
        sentences_[count_++] = sentence;
    }
    std::array<std::string_view, 16> sentences_{};
    std::size_t count_ = 0;
};

}  // namespace gx
