// JsonValue, read_json: JSON text read strictly; what gx reads back of what it wrote.
#pragma once

#include <charconv>      // from_chars
#include <cstdint>       // uint64_t
#include <string>        // names
#include <string_view>   // the text
#include <system_error>  // errc
#include <vector>        // items

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/error.hpp>  // Error

namespace gx {

/// Text that is not JSON, or a field that is missing or of another kind; says which.
class JsonError : public Error {
public:
    using Error::Error;
};

/// One value and all that is in it. A number stays text until somebody says what it is to be, so
/// 64-bit integers come back whole.
/// Errors: at, number, integer and string throw JsonError, naming the field.
struct JsonValue {
    enum class Kind : unsigned char { null, boolean, number, string, array, object };

    Kind kind = Kind::null;
    std::string name{};             ///< where it is a field of an object
    std::string text{};             ///< of a string; of anything else than items, its JSON
    std::vector<JsonValue> items{};  ///< of an array, or the fields of an object, in order

    /// The first field of that name, or nullptr.
    [[nodiscard]] const JsonValue* find(std::string_view field) const {
        for (const JsonValue& item : items)
            if (kind == Kind::object && item.name == field) return &item;
        return nullptr;
    }
    [[nodiscard]] const JsonValue& at(std::string_view field) const {
        if (const JsonValue* found = find(field)) return *found;
        throw JsonError("field '" + std::string(field) + "' is missing");
    }
    /// A number. Errors: also one that a double can't hold.
    [[nodiscard]] double number() const {
        double x = 0;
        read(x, "a number");
        return x;
    }
    /// A whole number that fits I.
    template <class I = std::int64_t>
    [[nodiscard]] I integer() const {
        I x = 0;
        read(x, "a whole number within its range");
        return x;
    }
    [[nodiscard]] bool boolean() const {
        if (kind != Kind::boolean) wrong("true or false");
        return text == "true";
    }
    [[nodiscard]] const std::string& string() const {
        if (kind != Kind::string) wrong("a string");
        return text;
    }
    [[nodiscard]] const std::vector<JsonValue>& array() const {
        if (kind != Kind::array) wrong("an array");
        return items;
    }

private:
    template <class Number>
    void read(Number& x, const char* wanted) const {
        const char* const end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data(), end, x);
        if (kind != Kind::number || error != std::errc{} || last != end) wrong(wanted);
    }
    [[noreturn]] void wrong(const char* wanted) const {
        throw JsonError((name.empty() ? "a value" : "field '" + name + "'") + " is not " + wanted);
    }
};

namespace detail {

/// Recursive descent over one text. Past its end it sees NUL, which is no JSON anywhere.
class JsonReader {
public:
    explicit JsonReader(std::string_view text) : text_(text) {}

    JsonValue all() {
        JsonValue out;
        value(out, 0);
        if (at_ != text_.size()) wrong("something follows the value");
        return out;
    }

private:
    static constexpr int depth_max = 200;  ///< keeps the stack of a fiber whole

    [[noreturn]] void wrong(const char* what) const {
        throw JsonError("not JSON at byte " + std::to_string(at_) + ": " + what);
    }
    [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char c) {
        const bool there = c != '\0' && peek() == c;
        at_ += there;
        return there;
    }
    GX_COLD void space() {
        while (take(' ') || take('\n') || take('\r') || take('\t')) {
        }
    }
    GX_COLD void value(JsonValue& out, int depth) {
        if (depth > depth_max) wrong("it is nested too deeply");
        space();
        switch (peek()) {
        case '{': fields(out, depth); break;
        case '[': elements(out, depth); break;
        case '"':
            out.kind = JsonValue::Kind::string;
            out.text = string();
            break;
        case 't': word(out, JsonValue::Kind::boolean, "true"); break;
        case 'f': word(out, JsonValue::Kind::boolean, "false"); break;
        case 'n': word(out, JsonValue::Kind::null, "null"); break;
        default: number(out);
        }
        space();
    }
    GX_COLD void fields(JsonValue& out, int depth) {
        out.kind = JsonValue::Kind::object;
        ++at_;
        space();
        if (take('}')) return;
        do {
            space();
            out.items.emplace_back().name = string();
            space();
            if (!take(':')) wrong("':' is expected");
            value(out.items.back(), depth + 1);
        } while (take(','));
        if (!take('}')) wrong("',' or '}' is expected");
    }
    GX_COLD void elements(JsonValue& out, int depth) {
        out.kind = JsonValue::Kind::array;
        ++at_;
        space();
        if (take(']')) return;
        do value(out.items.emplace_back(), depth + 1);
        while (take(','));
        if (!take(']')) wrong("',' or ']' is expected");
    }
    GX_COLD void word(JsonValue& out, JsonValue::Kind kind, std::string_view spelled) {
        if (text_.substr(at_, spelled.size()) != spelled) wrong("a value is expected");
        at_ += spelled.size();
        out.kind = kind;
        out.text = spelled;
    }
    GX_COLD void number(JsonValue& out) {
        const std::size_t begin = at_;
        take('-');
        if (!take('0')) digits();
        if (take('.')) digits();
        if (take('e') || take('E')) {
            if (!take('+')) take('-');
            digits();
        }
        out.kind = JsonValue::Kind::number;
        out.text = text_.substr(begin, at_ - begin);
    }
    GX_COLD void digits() {
        const std::size_t begin = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        if (at_ == begin) wrong("a value or a digit is expected");
    }
    std::string string() {
        if (!take('"')) wrong("'\"' is expected");
        std::string out;
        while (!take('"')) {
            const auto c = static_cast<unsigned char>(peek());
            if (c < 0x20) wrong("a string holds a control character, or has no end");
            if (take('\\')) escape(out);
            else if (c < 0x80) out += text_[at_++];
            else wide(out);
        }
        return out;
    }
    GX_COLD void escape(std::string& out) {
        constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
        if (take('u')) return append(out, code_point());
        const std::size_t which = from.find(peek());
        if (which == from.npos) wrong("no such escape");
        out += to[which];
        ++at_;
    }
    std::uint32_t code_point() {
        const std::uint32_t high = hex();
        if (high < 0xd800 || high > 0xdfff) return high;
        const bool pair = high < 0xdc00 && take('\\') && take('u');
        const std::uint32_t low = pair ? hex() : 0;
        if (low < 0xdc00 || low > 0xdfff) wrong("half of a surrogate pair");
        return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    std::uint32_t hex() {
        std::uint32_t x = 0;
        const std::string_view four = text_.substr(at_, 4);
        const auto [last, error] = std::from_chars(four.data(), four.data() + four.size(), x, 16);
        if (error != std::errc{} || last != four.data() + 4) wrong("four hexadecimal digits");
        at_ += 4;
        return x;
    }
    GX_COLD static void append(std::string& out, std::uint32_t c) {
        const auto tail = [&](int shift) {
            out += static_cast<char>(0x80 | (c >> shift & 0x3f));
        };
        if (c < 0x80) {
            out += static_cast<char>(c);
            return;
        }
        const int tails = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        out += static_cast<char>((0xff00 >> (tails + 1) & 0xff) | c >> 6 * tails);
        for (int i = tails; i-- > 0;) tail(6 * i);
    }
    /// A character of several bytes, taken over where it is UTF-8.
    /// Source: RFC 3629, section 4: no longer form than needed, no surrogates, up to U+10FFFF.
    GX_COLD void wide(std::string& out) {
        const auto first = static_cast<unsigned char>(peek());
        const int tails = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        std::uint32_t c = first & (0x3fu >> tails);
        const std::size_t begin = at_++;
        for (int i = 0; i < tails; ++i, ++at_) {
            const auto next = static_cast<unsigned char>(peek());
            if ((next & 0xc0) != 0x80) wrong("this is not UTF-8");
            c = c << 6 | (next & 0x3fu);
        }
        std::string again;
        append(again, c);
        const bool surrogate = c >= 0xd800 && c <= 0xdfff;
        if (surrogate || c > 0x10ffff || again != text_.substr(begin, at_ - begin))
            wrong("this is not UTF-8");
        out += again;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace detail

/// Reads one JSON value and nothing behind it. It is strict: no comments, no trailing commas, no
/// infinities, UTF-8 only. A name that stands twice in an object is kept twice.
/// Errors: JsonError saying at which byte it is not JSON, or nested more than 200 deep.
/// Source: RFC 8259.
GX_COLD [[nodiscard]] inline JsonValue read_json(std::string_view text) {
    return detail::JsonReader(text).all();
}

}  // namespace gx
