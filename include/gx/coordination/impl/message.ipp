// Messages: their bytes, both ways.
#pragma once

#include <array>    // the letters
#include <cstdio>   // snprintf
#include <cstring>  // memcpy

#include <gx/coordination/message.hpp>  // the declarations
#include <gx/core/contract.hpp>         // GX_EXPECT

namespace gx::coordination {

namespace detail::message {

inline constexpr std::string_view letters = "gxco";
inline constexpr std::size_t label_bytes_max = 63;

class Writer {
public:
    template <class T>
    void number(T x) {
        for (std::size_t i = 0; i < sizeof(T); ++i)
            bytes.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(x) >> (8 * i)));
    }
    void string(std::string_view text) {
        number(static_cast<std::uint32_t>(text.size()));
        for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
    }
    void text(std::string_view sentence) {
        if (sentence.size() <= text_bytes_max) return string(sentence);
        string(std::string(sentence.substr(0, text_bytes_max - 3)) + "...");
    }
    void operation(const Operation& o) {
        string(o.what);
        number(o.step);
        number(o.bucket);
    }
    void duration(Duration d) { number(std::int64_t{d.count()}); }

    void operator()(const Hello& m) {
        string(m.run_id);
        number(m.rank);
        number(m.ranks);
        number(m.local_rank);
        number(m.process);
        string(m.host);
    }
    void operator()(const Welcome& m) {
        number(static_cast<std::uint32_t>(m.members.size()));
        for (const MemberInfo& info : m.members) {
            string(info.host);
            number(info.process);
            number(info.local_rank);
        }
    }
    void operator()(const Refused& m) { text(m.text); }
    void operator()(const RunTerms& m) {
        text(m.composition);
        number(m.seed);
        string(m.options);
        number(m.ranks);
        text(m.source);
    }
    void operator()(const Agreed&) {}
    void operator()(const Alive& m) { operation(m.operation); }
    void operator()(const Failed& m) {
        number(m.exit_status);
        operation(m.operation);
        text(m.text);
    }
    void operator()(const Blamed& m) {
        number(m.peer);
        operation(m.operation);
        duration(m.lasted);
    }
    void operator()(const Cause& m) {
        number(static_cast<std::uint8_t>(m.reason));
        number(m.rank);
        number(m.observer);
        number(m.exit_status);
        operation(m.operation);
        text(m.text);
    }
    void operator()(const Leaving&) {}
    void operator()(const Left& m) { number(m.rank); }
    void operator()(const Ended& m) { number(m.exit_status); }
    void operator()(const Note& m) {
        number(m.rank);
        number(static_cast<std::uint32_t>(m.bytes.size()));
        bytes.insert(bytes.end(), m.bytes.begin(), m.bytes.end());
    }
    void operator()(const Staying& m) { number(m.number); }
    void operator()(const Regrouped& m) {
        number(m.number);
        number(static_cast<std::uint32_t>(m.members.size()));
        for (const int rank : m.members) number(rank);
    }
    void operator()(const Waiting& m) {
        number(static_cast<std::uint32_t>(m.waits.size()));
        for (const Wait& wait : m.waits) {
            duration(wait.lasted);
            number(static_cast<std::uint32_t>(wait.peers.size()));
            for (const int peer : wait.peers) number(peer);
        }
        operation(m.operation);
        duration(m.standstill.lasted);
        duration(m.standstill.ago);
    }

    std::vector<std::byte> bytes{};
};

/// Reads a body; `good` is false once it has ended too early or holds what no value may be.
class Reader {
public:
    explicit Reader(std::span<const std::byte> body) : rest_(body) {}

    [[nodiscard]] bool whole() const { return good && rest_.empty(); }

    template <class T>
    void number(T& x) {
        if (rest_.size() < sizeof(T)) {
            good = false;
            rest_ = {};
            return;
        }
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i)
            value |= std::to_integer<std::uint64_t>(rest_[i]) << (8 * i);
        x = static_cast<T>(value);
        rest_ = rest_.subspan(sizeof(T));
    }
    void string(std::string& text) {
        std::uint32_t size = 0;
        number(size);
        if (size > rest_.size()) {
            good = false;
            rest_ = {};
            return;
        }
        text.resize(size);
        if (size > 0) std::memcpy(text.data(), rest_.data(), size);
        rest_ = rest_.subspan(size);
        replace_control_characters(text);
    }
    void operation(Operation& o) {
        std::string what;
        string(what);
        if (what.size() > label_bytes_max) good = false;
        else o.what = Label(std::string_view(what));
        number(o.step);
        number(o.bucket);
    }
    void duration(Duration& d) {
        std::int64_t nanoseconds = 0;
        number(nanoseconds);
        constexpr Duration longest = std::chrono::hours(100 * 365 * 24);  // sums of two fit
        if (nanoseconds < 0 || nanoseconds > longest.count()) good = false;
        d = std::chrono::nanoseconds(nanoseconds);
    }

    void operator()(Hello& m) {
        string(m.run_id);
        number(m.rank);
        number(m.ranks);
        number(m.local_rank);
        number(m.process);
        string(m.host);
    }
    void operator()(Welcome& m) {
        std::uint32_t count = 0;
        number(count);
        for (std::uint32_t i = 0; i < count && good; ++i) {
            MemberInfo info;
            string(info.host);
            number(info.process);
            number(info.local_rank);
            m.members.push_back(std::move(info));
        }
    }
    void operator()(Refused& m) { string(m.text); }
    void operator()(RunTerms& m) {
        string(m.composition);
        number(m.seed);
        string(m.options);
        number(m.ranks);
        string(m.source);
    }
    void operator()(Agreed&) {}
    void operator()(Alive& m) { operation(m.operation); }
    void operator()(Failed& m) {
        number(m.exit_status);
        operation(m.operation);
        string(m.text);
    }
    void operator()(Blamed& m) {
        number(m.peer);
        operation(m.operation);
        duration(m.lasted);
    }
    void operator()(Cause& m) {
        std::uint8_t reason = 0;
        number(reason);
        if (reason == 0 || reason > static_cast<std::uint8_t>(Reason::absent)) good = false;
        m.reason = static_cast<Reason>(reason);
        number(m.rank);
        number(m.observer);
        number(m.exit_status);
        operation(m.operation);
        string(m.text);
    }
    void operator()(Leaving&) {}
    void operator()(Left& m) { number(m.rank); }
    void operator()(Ended& m) { number(m.exit_status); }
    void operator()(Note& m) {
        number(m.rank);
        std::uint32_t size = 0;
        number(size);
        if (size != rest_.size()) good = false;
        m.bytes.assign(rest_.begin(), rest_.end());
        rest_ = {};
    }
    void operator()(Staying& m) { number(m.number); }
    void operator()(Regrouped& m) {
        number(m.number);
        std::uint32_t count = 0;
        number(count);
        for (std::uint32_t i = 0; i < count && good; ++i) number(m.members.emplace_back());
    }
    void operator()(Waiting& m) {
        std::uint32_t count = 0;
        number(count);
        if (count > waits_max) good = false;
        for (std::uint32_t i = 0; i < count && good; ++i) {
            Wait& wait = m.waits.emplace_back();
            duration(wait.lasted);
            std::uint32_t peers = 0;
            number(peers);
            if (peers == 0) good = false;
            for (std::uint32_t k = 0; k < peers && good; ++k) number(wait.peers.emplace_back());
        }
        operation(m.operation);
        duration(m.standstill.lasted);
        duration(m.standstill.ago);
    }

    bool good = true;

private:
    std::span<const std::byte> rest_;
};

/// An empty message of that kind; kinds count from 1 in the order of Message.
template <std::size_t... I>
std::optional<Message> of_kind(std::uint16_t kind, std::index_sequence<I...>) {
    std::optional<Message> found;
    ((kind == I + 1 ? void(found.emplace(std::in_place_index<I>)) : void()), ...);
    return found;
}

}  // namespace detail::message

GX_DECL std::vector<std::byte> encode(const Message& message) {
    detail::message::Writer body;
    std::visit(body, message);
    GX_EXPECT(body.bytes.size() <= body_bytes_max,
              "a message of the coordination channel is small");
    detail::message::Writer whole;
    for (const char c : detail::message::letters) whole.number(static_cast<std::uint8_t>(c));
    whole.number(protocol_version);
    whole.number(static_cast<std::uint16_t>(message.index() + 1));
    whole.number(static_cast<std::uint32_t>(body.bytes.size()));
    whole.bytes.insert(whole.bytes.end(), body.bytes.begin(), body.bytes.end());
    return std::move(whole.bytes);
}

GX_DECL void replace_control_characters(std::string& text) {
    for (char& c : text)
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) c = '?';
}

GX_DECL std::string describe(const Operation& operation) {
    if (operation.what.view().empty()) return "no operation reported yet";
    std::string text;
    if (operation.step >= 0) text += "step " + std::to_string(operation.step) + ", ";
    if (operation.bucket >= 0) text += "bucket " + std::to_string(operation.bucket) + ", ";
    return text + "operation " + std::string(operation.what.view());
}

GX_DECL std::string in_seconds(Duration d) {
    const double seconds = std::chrono::duration<double>(d).count();
    char text[32];
    std::snprintf(text, sizeof(text), seconds < 1 ? "%.6g" : "%.2f", seconds);
    std::string digits = text;
    if (digits.find('e') == digits.npos && digits.find('.') != digits.npos) {
        digits.erase(digits.find_last_not_of('0') + 1);
        if (digits.back() == '.') digits.pop_back();
    }
    return digits + " s";
}

GX_DECL void MessageReader::feed(std::span<const std::byte> bytes) {
    if (!problem_.empty()) return;
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

GX_DECL std::optional<Message> MessageReader::fail(std::string sentence) {
    problem_ = std::move(sentence);
    bytes_.clear();
    at_ = 0;
    return std::nullopt;
}

GX_DECL std::optional<Message> MessageReader::next() {
    const auto rest = std::span(bytes_).subspan(at_);
    const std::size_t known = std::min(rest.size(), detail::message::letters.size());
    for (std::size_t i = 0; i < known; ++i)
        if (rest[i] != static_cast<std::byte>(detail::message::letters[i]))
            return fail("its bytes do not begin as a message of gx");
    if (rest.size() < header_bytes) return std::nullopt;
    std::uint16_t version = 0, kind = 0;
    std::uint32_t size = 0;
    detail::message::Reader header(rest.first(header_bytes).subspan(4));
    header.number(version);
    header.number(kind);
    header.number(size);
    constexpr std::uint16_t refused = 3;
    if (version != protocol_version && kind != refused)
        return fail("it speaks version " + std::to_string(version) +
                    " of the coordination channel, and this process version " +
                    std::to_string(protocol_version) + ": start all ranks with one version of gx");
    if (size > limit_)
        return fail("it announces a message of " + std::to_string(size) + " bytes, at most " +
                    std::to_string(limit_) + " are taken");
    auto message =
        detail::message::of_kind(kind, std::make_index_sequence<std::variant_size_v<Message>>());
    if (!message) return fail("it sent a message of unknown kind " + std::to_string(kind));
    if (rest.size() < header_bytes + size) return std::nullopt;
    detail::message::Reader body(rest.subspan(header_bytes, size));
    std::visit(body, *message);
    if (!body.whole())
        return fail("the body of its message of kind " + std::to_string(kind) + " is not whole");
    at_ += header_bytes + size;
    return message;
}

}  // namespace gx::coordination
