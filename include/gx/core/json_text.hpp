// JsonWriter: JSON text, item by item; json_quoted and json_number, the two parts that need care.
#pragma once

#include <cmath>        // isfinite
#include <string>       // the text
#include <string_view>  // what to quote
#include <type_traits>  // is_integral_v

#include <fmt/core.h>  // shortest digits that read back equal

#include <gx/core/cold.hpp>  // GX_COLD

namespace gx {

/// `text` (UTF-8) as a JSON string, with its quotes.
/// Source: RFC 8259, section 7.
GX_COLD [[nodiscard]] inline std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += {'\\', c};
        else if (static_cast<unsigned char>(c) < 0x20)
            out += {'\\', 'u', '0', '0', "01"[c >> 4], "0123456789abcdef"[c & 15]};
        else out += c;
    }
    return out + '"';
}

/// The shortest number that reads back equal; null where JSON has none (infinities, NaN).
GX_COLD [[nodiscard]] inline std::string json_number(double x) {
    return std::isfinite(x) ? fmt::format("{}", x) : "null";
}

/// Writes JSON text without spaces, item by item; commas are its business, brackets the caller's.
///
///     JsonWriter w;
///     w.open('{').field("step", 3);
///     w.name("rates").open('[').value(0.5).value(1.0).close(']').close('}');
///     w.text()  // {"step":3,"rates":[0.5,1]}
class JsonWriter {
public:
    JsonWriter& open(char bracket) {
        comma();
        text_ += bracket;
        bare_ = true;
        return *this;
    }
    JsonWriter& close(char bracket) {
        text_ += bracket;
        bare_ = false;
        return *this;
    }
    /// Of the field that comes next.
    JsonWriter& name(std::string_view name) {
        comma();
        text_ += json_quoted(name);
        text_ += ':';
        bare_ = true;
        return *this;
    }
    /// true or false, a whole number, a number (null where JSON has none), or a string.
    template <class T>
    JsonWriter& value(const T& x) {
        if constexpr (std::is_same_v<T, bool>) return put(x ? "true" : "false");
        else if constexpr (std::is_integral_v<T>) return put(std::to_string(x));
        else if constexpr (std::is_floating_point_v<T>) return put(json_number(double{x}));
        else return put(json_quoted(x));
    }
    template <class T>
    JsonWriter& field(std::string_view of, const T& x) {
        return name(of).value(x);
    }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    JsonWriter& put(std::string_view item) {
        comma();
        text_ += item;
        bare_ = false;
        return *this;
    }
    void comma() {
        if (!bare_) text_ += ',';
    }

    std::string text_;
    bool bare_ = true;  ///< nothing stands before the next item that a comma parts it from
};

}  // namespace gx
