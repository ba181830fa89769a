// read_xml: elements and attributes of an XML text, with the line of each; strict and small.
#pragma once

#include <array>         // entities
#include <charconv>      // from_chars
#include <string>        // names
#include <string_view>   // the text
#include <system_error>  // errc
#include <utility>       // pair
#include <vector>        // children

#include <gx/core/error.hpp>  // Error

namespace gx::sim {

/// An element: its attributes and the elements in it. Text between elements is skipped.
/// Errors: at() and number() throw gx::Error with line, element and attribute.
struct XmlElement {
    std::string name{};
    int line = 0;
    std::vector<std::pair<std::string, std::string>> attributes{};
    std::vector<XmlElement> children{};

    [[nodiscard]] const std::string* find(std::string_view attribute) const {
        for (const auto& [key, value] : attributes)
            if (key == attribute) return &value;
        return nullptr;
    }
    [[nodiscard]] const std::string& at(std::string_view attribute) const {
        if (const std::string* found = find(attribute)) return *found;
        wrong("attribute '" + std::string(attribute) + "' is missing");
    }
    /// The number that an attribute begins with, as in "16 GT/s".
    [[nodiscard]] double number(std::string_view attribute) const {
        const std::string& text = at(attribute);
        double x = 0;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), x);
        if (read.ec != std::errc{} || !(x >= 0) || x > 1e15)
            wrong("attribute '" + std::string(attribute) + "' is '" + text +
                  "' and not a number of at least 0");
        return x;
    }
    [[nodiscard]] int integer(std::string_view attribute, int most) const {
        const double x = number(attribute);
        if (x <= most && x == static_cast<int>(x)) return static_cast<int>(x);
        wrong("attribute '" + std::string(attribute) + "' is '" + at(attribute) +
              "' and not a whole number up to " + std::to_string(most));
    }
    [[noreturn]] void wrong(const std::string& why) const {
        throw Error("line " + std::to_string(line) + ": <" + name + ">: " + why);
    }
};

namespace detail {

class XmlReader {
public:
    explicit XmlReader(std::string_view text) : text_(text) {}

    XmlElement all() {
        skip_to_element();
        if (at_ == text_.size()) wrong("there is no element");
        XmlElement root = element(0);
        skip_to_element();
        if (at_ != text_.size()) wrong("a second element follows the first");
        return root;
    }

private:
    static constexpr int depth_max = 100;

    [[noreturn]] void wrong(const std::string& why) const {
        throw Error("line " + std::to_string(line_) + ": not XML: " + why);
    }
    [[nodiscard]] bool here(std::string_view s) const { return text_.substr(at_).starts_with(s); }
    [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    void advance(std::size_t n) {
        for (; n > 0 && at_ < text_.size(); --n) line_ += text_[at_++] == '\n' ? 1 : 0;
    }
    void skip_past(std::string_view end, const char* what) {
        const std::size_t found = text_.find(end, at_);
        if (found == text_.npos) wrong(std::string(what) + " has no end");
        advance(found + end.size() - at_);
    }
    static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
    void space() {
        while (is_space(peek())) advance(1);
    }
    /// To the next '<' of an element or of its end; past comments, declarations and text.
    void skip_to_element() {
        while (at_ < text_.size()) {
            if (here("<!--")) skip_past("-->", "a comment");
            else if (here("<?")) skip_past("?>", "a declaration");
            else if (here("<!")) skip_past(">", "a declaration");
            else if (peek() == '<') return;
            else advance(1);
        }
    }
    std::string name() {
        const std::size_t begin = at_;
        const auto part = [](char c) {
            return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
                   c == '_' || c == '-' || c == ':' || c == '.';
        };
        while (part(peek())) advance(1);
        if (at_ == begin) wrong("a name is expected");
        return std::string(text_.substr(begin, at_ - begin));
    }
    std::string value() {
        const char quote = peek();
        if (quote != '"' && quote != '\'') wrong("the value of an attribute is not in quotes");
        advance(1);
        std::string out;
        for (; peek() != quote; advance(1)) {
            if (at_ == text_.size() || peek() == '<') wrong("the value of an attribute has no end");
            if (peek() == '&') out += entity();
            else out += peek();
        }
        advance(1);
        return out;
    }
    /// Stops at its ';'.
    char entity() {
        constexpr std::array<std::pair<std::string_view, char>, 5> known{
            {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}}};
        for (const auto& [written, means] : known)
            if (here(written)) {
                advance(written.size() - 1);
                return means;
            }
        wrong("'&' begins no entity: write '&amp;'");
    }
    XmlElement element(int depth) {
        if (depth > depth_max) wrong("it is nested too deeply");
        XmlElement e;
        e.line = line_;
        advance(1);
        e.name = name();
        for (space(); peek() != '>' && !here("/>"); space()) {
            if (at_ == text_.size()) wrong("<" + e.name + "> has no end");
            std::string key = name();
            if (e.find(key) != nullptr) wrong("attribute '" + key + "' is given twice");
            space();
            if (peek() != '=') wrong("'=' is expected after '" + key + "'");
            advance(1);
            space();
            std::string text = value();
            e.attributes.emplace_back(std::move(key), std::move(text));
        }
        if (here("/>")) {
            advance(2);
            return e;
        }
        advance(1);
        children(e, depth);
        return e;
    }
    void children(XmlElement& e, int depth) {
        for (skip_to_element(); !here("</"); skip_to_element()) {
            if (at_ == text_.size())
                wrong("<" + e.name + "> of line " + std::to_string(e.line) + " has no end");
            e.children.push_back(element(depth + 1));
        }
        advance(2);
        const std::string end = name();
        if (end != e.name)
            wrong("</" + end + "> ends <" + e.name + "> of line " + std::to_string(e.line));
        space();
        if (peek() != '>') wrong("'>' is expected after '</" + end + "'");
        advance(1);
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int line_ = 1;
};

}  // namespace detail

/// The root element of an XML text. Namespaces, DTDs and CDATA are not read.
/// Errors: gx::Error with the line, for anything that is not well formed.
[[nodiscard]] inline XmlElement read_xml(std::string_view text) {
    return detail::XmlReader(text).all();
}

}  // namespace gx::sim
