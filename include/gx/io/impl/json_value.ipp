// JsonReader, and what a JsonValue returns as a number, a text or a list.
#pragma once

#include <charconv>      // from_chars
#include <cmath>         // fabs
#include <cstdlib>       // strtod
#include <system_error>  // errc

#include <gx/io/json_value.hpp>  // JsonValue
#include <gx/io/utf8.hpp>        // utf8_character

namespace gx {

GX_DECL const JsonValue* JsonValue::find(std::string_view field) const& {
    for (const JsonValue& item : items)
        if (kind == Kind::object && item.name == field) return &item;
    return nullptr;
}
GX_DECL const JsonValue& JsonValue::at(std::string_view field) const& {
    if (const JsonValue* found = find(field)) return *found;
    throw JsonError("field '" + std::string(field) + "' is missing");
}
GX_DECL bool JsonValue::boolean() const {
    if (kind != Kind::boolean) wrong("true or false");
    return text == "true";
}
GX_DECL const std::string& JsonValue::string() const& {
    if (kind != Kind::string) wrong("a string");
    return text;
}
GX_DECL const std::vector<JsonValue>& JsonValue::array() const& {
    if (kind != Kind::array) wrong("an array");
    return items;
}

namespace detail {

/// True, and `x` is set: all of `v` is a number that fits.
template <class Number>
bool read_number(const JsonValue& v, Number& x) {
    const char* const end = v.text.data() + v.text.size();
    const auto [last, error] = std::from_chars(v.text.data(), end, x);
    return v.kind == JsonValue::Kind::number && error == std::errc{} && last == end;
}

}  // namespace detail

GX_DECL double JsonValue::number() const {
    double x = 0;
    if (detail::read_number(*this, x)) return x;
    // Out of range: below the least double a number is 0, as other readers have it.
    if (kind != Kind::number || !(std::fabs(std::strtod(text.c_str(), nullptr)) < 1))
        wrong("a number");
    return 0;
}
GX_DECL bool JsonValue::whole(std::int64_t& x) const { return detail::read_number(*this, x); }
GX_DECL bool JsonValue::whole(std::uint64_t& x) const { return detail::read_number(*this, x); }
GX_DECL void JsonValue::wrong(const char* expected) const {
    throw JsonError((name.empty() ? "a value" : "field '" + name + "'") + " is not " + expected);
}

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
        const std::size_t row = text_.substr(0, at_).rfind('\n');  // npos + 1 is 0
        throw JsonError("not JSON: line " + std::to_string(line_) + ", column " +
                        std::to_string(at_ - (row + 1) + 1) + ": " + what);
    }
    [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char c) {
        const bool there = c != '\0' && peek() == c;
        at_ += there;
        return there;
    }
    void space() {
        for (; peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t'; ++at_)
            line_ += peek() == '\n' ? 1 : 0;
    }
    void value(JsonValue& out, int depth) {
        if (depth > depth_max) wrong("it is nested too deeply");
        space();
        out.line = line_;
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
    void fields(JsonValue& out, int depth) {
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
    void elements(JsonValue& out, int depth) {
        out.kind = JsonValue::Kind::array;
        ++at_;
        space();
        if (take(']')) return;
        do value(out.items.emplace_back(), depth + 1);
        while (take(','));
        if (!take(']')) wrong("',' or ']' is expected");
    }
    void word(JsonValue& out, JsonValue::Kind kind, std::string_view spelled) {
        if (text_.substr(at_, spelled.size()) != spelled) wrong("a value is expected");
        at_ += spelled.size();
        out.kind = kind;
        out.text = spelled;
    }
    void number(JsonValue& out) {
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
    void digits() {
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
    void escape(std::string& out) {
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
    static void append(std::string& out, std::uint32_t c) {
        const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
        if (c < 0x80) {
            out += static_cast<char>(c);
            return;
        }
        const int tails = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        out += static_cast<char>((0xff00 >> (tails + 1) & 0xff) | c >> 6 * tails);
        for (int i = tails; i-- > 0;) tail(6 * i);
    }
    /// A character of several bytes.
    void wide(std::string& out) {
        const std::size_t bytes = utf8_character(text_.substr(at_));
        if (bytes == 0) wrong("this is not UTF-8");
        out += text_.substr(at_, bytes);
        at_ += bytes;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int line_ = 1;
};

}  // namespace detail

GX_DECL JsonValue read_json(std::string_view text) { return detail::JsonReader(text).all(); }

}  // namespace gx
