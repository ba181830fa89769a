// Label: fixed-capacity string for constexpr values; no allocation.
#pragma once

#include <array>        // the characters
#include <cstddef>      // size_t
#include <string_view>  // what it reads as

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx {

/// String of at most 63 characters. Errors: a longer one breaks the contract.
class Label {
public:
    constexpr Label() = default;
    constexpr Label(const char* text) : Label(std::string_view(text)) {}  // NOLINT: names are text
    constexpr Label(std::string_view text) {                              // NOLINT
        append(text);
    }
    [[nodiscard]] constexpr std::string_view view() const { return {text_.data(), length_}; }
    constexpr operator std::string_view() const { return view(); }  // NOLINT: reads as text
    [[nodiscard]] friend constexpr Label operator+(Label a, std::string_view b) {
        a.append(b);
        return a;
    }
    /// `name + number`, as in "layer" + 3.
    [[nodiscard]] friend constexpr Label operator+(Label a, int number) {
        GX_EXPECT(number >= 0, "labels count from 0");
        if (number >= 10) a = a + number / 10;
        const char digit = static_cast<char>('0' + number % 10);
        a.append({&digit, 1});
        return a;
    }
    friend constexpr bool operator==(const Label& a, const Label& b) {
        return a.view() == b.view();
    }

private:
    constexpr void append(std::string_view text) {
        GX_EXPECT(length_ + text.size() < text_.size(), "a label holds at most 63 characters");
        for (const char c : text) text_[length_++] = c;
    }
    std::array<char, 64> text_{};
    std::size_t length_ = 0;
};

}  // namespace gx
