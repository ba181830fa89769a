// JsonWriter: JSON text, item by item; json_quoted and json_number write one value.
#pragma once

#include <string>       // the text
#include <string_view>  // what to quote
#include <type_traits>  // is_integral_v

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// Returns `text` (UTF-8) as a JSON string, with its quotes. A byte that is not of a UTF-8
/// character, as names of files may have, becomes U+FFFD: readers refuse files with others.
/// Source: RFC 8259, section 7.
[[nodiscard]] GX_DECL std::string json_quoted(std::string_view text);

/// Returns the shortest number that reads back equal; null for infinities and NaN.
[[nodiscard]] GX_DECL std::string json_number(double x);

/// Writer of JSON text: adds commas and quotes; the caller opens and closes the brackets.
///
///     JsonWriter w;
///     w.open('{').field("step", 3);
///     w.name("rates").open('[').value(0.5).value(1.0).close(']').close('}');
///     w.text()  // {"step":3,"rates":[0.5,1]}
///
/// With `indent` > 0 each item is on a line of its own, that many columns further in a level.
class JsonWriter {
public:
    explicit JsonWriter(int indent = 0) : indent_(indent) {}

    JsonWriter& open(char bracket);
    JsonWriter& close(char bracket);
    /// Writes the name of the field whose value comes next.
    JsonWriter& name(std::string_view name);
    /// Writes true or false, a whole number, a number (null for infinities and NaN), or a string.
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
    JsonWriter& put(std::string_view item);
    void begin_item();
    void begin_line();

    std::string text_;
    int indent_ = 0, depth_ = 0;
    bool first_ = true;   ///< no item precedes the next one in its brackets
    bool named_ = false;  ///< the next item is the value of a field whose name is written
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/json_text.ipp>
#endif
