// JsonValue, read_json: a strict JSON reader; values keep the line they begin at.
#pragma once

#include <cstdint>      // uint64_t
#include <string>       // names
#include <string_view>  // the text
#include <utility>      // in_range
#include <vector>       // items

#include <gx/core/decl.hpp>   // GX_DECL
#include <gx/core/error.hpp>  // Error

namespace gx {

/// Text that is not JSON, or a field that is missing or of another kind; names the place.
class JsonError : public Error {
public:
    using Error::Error;
};

/// A JSON value and the values in it.
///
/// A number is kept as text until it is asked for as a type, so 64-bit integers come back exactly.
/// A value that ends gives what is in it away, so that `for (auto& v : read_json(text).array())`
/// reads what lives.
/// Errors: at, number, integer, boolean, string and array throw JsonError with the field's name.
struct JsonValue {
    enum class Kind : unsigned char { null, boolean, number, string, array, object };

    Kind kind = Kind::null;
    int line = 0;                    ///< of its first character, counted from 1; 0: not read
    std::string name{};              ///< if it is a field of an object
    std::string text{};              ///< of a string; of a number or word, as it is written
    std::vector<JsonValue> items{};  ///< of an array, or the fields of an object, in order

    /// Returns the first field of that name, or nullptr.
    [[nodiscard]] const JsonValue* find(std::string_view field) const&;
    const JsonValue* find(std::string_view field) const&& = delete;
    [[nodiscard]] const JsonValue& at(std::string_view field) const&;
    [[nodiscard]] JsonValue at(std::string_view field) const&& { return at(field); }
    /// Returns a number that a double can hold.
    [[nodiscard]] double number() const;
    /// Returns a whole number within the range of I.
    template <class I = std::int64_t>
    [[nodiscard]] I integer() const {
        std::int64_t x = 0;
        std::uint64_t large = 0;
        if (whole(x) && std::in_range<I>(x)) return static_cast<I>(x);
        if (whole(large) && std::in_range<I>(large)) return static_cast<I>(large);
        wrong("a whole number within its range");
    }
    [[nodiscard]] bool boolean() const;
    [[nodiscard]] const std::string& string() const&;
    [[nodiscard]] std::string string() const&& { return string(); }
    [[nodiscard]] const std::vector<JsonValue>& array() const&;
    [[nodiscard]] std::vector<JsonValue> array() const&& { return array(); }

private:
    [[nodiscard]] bool whole(std::int64_t& x) const;
    [[nodiscard]] bool whole(std::uint64_t& x) const;
    [[noreturn]] void wrong(const char* expected) const;
};

/// Reads one JSON value. It is strict: no comments, no trailing commas, no infinities, nothing
/// after the value, UTF-8 only. A name given twice in an object is kept twice.
/// Errors: JsonError with line and column (of bytes); nesting deeper than 200 is refused.
/// Source: RFC 8259.
[[nodiscard]] GX_DECL JsonValue read_json(std::string_view text);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/json_value.ipp>
#endif
