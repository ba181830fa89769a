// queued_call: make a call that queues work, unless a graph replays it.
#pragma once

#include <bit>          // bit_cast
#include <cstddef>      // size_t
#include <cstdint>      // uint64_t
#include <cstring>      // memcpy
#include <memory>       // shared_ptr
#include <string>       // sentences
#include <string_view>  // names
#include <type_traits>  // has_unique_object_representations_v
#include <vector>       // calls

#include <gx/core/error.hpp>  // NotRepeated
#include <gx/core/hash.hpp>   // mix64

namespace gx::cuda {

/// A hash of what a call is given: numbers, pointers, and aggregates of up to 12 of them, whose
/// padding does not count.
class CallHash {
public:
    template <class T>
    void add(const T& x) {
        static_assert(std::is_trivially_copyable_v<T>);
        if constexpr (std::is_empty_v<T>) return;
        else if constexpr (std::is_scalar_v<T> || std::has_unique_object_representations_v<T>)
            add_bytes(&x, sizeof x);
        else add_members(x);
    }
    [[nodiscard]] std::uint64_t value() const { return value_; }

private:
    struct Any {
        template <class T>
        operator T() const;  // NOLINT(google-explicit-constructor)
    };
    template <class T, class... A>
    static consteval int members() {
        if constexpr (requires { T{A{}..., Any{}}; }) return members<T, A..., Any>();
        else return int{sizeof...(A)};
    }
    void add_bytes(const void* from, std::size_t bytes) {
        for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, static_cast<const char*>(from) + at,
                        bytes - at < sizeof word ? bytes - at : sizeof word);
            value_ = mix64(value_ ^ word) + golden64;
        }
    }
    template <class T>
    void add_members(const T& x) {
        constexpr int count = members<T>();
        static_assert(count <= 12,
                      "gx: a kernel's argument has more than 12 members. Fix: give "
                      "it several arguments.");
        const auto add_all = [this](const auto&... m) { (this->add(m), ...); };
        if constexpr (count == 1) {
            const auto& [a] = x;
            add_all(a);
        } else if constexpr (count == 2) {
            const auto& [a, b] = x;
            add_all(a, b);
        } else if constexpr (count == 3) {
            const auto& [a, b, c] = x;
            add_all(a, b, c);
        } else if constexpr (count == 4) {
            const auto& [a, b, c, d] = x;
            add_all(a, b, c, d);
        } else if constexpr (count == 5) {
            const auto& [a, b, c, d, e] = x;
            add_all(a, b, c, d, e);
        } else if constexpr (count == 6) {
            const auto& [a, b, c, d, e, f] = x;
            add_all(a, b, c, d, e, f);
        } else if constexpr (count == 7) {
            const auto& [a, b, c, d, e, f, g] = x;
            add_all(a, b, c, d, e, f, g);
        } else if constexpr (count == 8) {
            const auto& [a, b, c, d, e, f, g, h] = x;
            add_all(a, b, c, d, e, f, g, h);
        } else if constexpr (count == 9) {
            const auto& [a, b, c, d, e, f, g, h, i] = x;
            add_all(a, b, c, d, e, f, g, h, i);
        } else if constexpr (count == 10) {
            const auto& [a, b, c, d, e, f, g, h, i, j] = x;
            add_all(a, b, c, d, e, f, g, h, i, j);
        } else if constexpr (count == 11) {
            const auto& [a, b, c, d, e, f, g, h, i, j, k] = x;
            add_all(a, b, c, d, e, f, g, h, i, j, k);
        } else {
            const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = x;
            add_all(a, b, c, d, e, f, g, h, i, j, k, l);
        }
    }

    std::uint64_t value_ = golden64;
};

/// The calls of a graph, in their order: first as they are captured, then as they are replayed.
class GraphCalls {
public:
    struct Call {
        const char* name;
        std::uint64_t hash;
    };
    /// Ends with the object, and is that of no other one.
    [[nodiscard]] std::weak_ptr<const void> life() const { return life_; }
    /// From the first call on, again.
    void begin(bool captures) {
        captures_ = captures;
        next_ = 0;
        ++passes_;
        if (captures) calls_.clear();
    }
    /// Whether the call is to be made. Errors: NotRepeated where another one was captured.
    bool add(const char* name, std::uint64_t hash);
    /// Errors: NotRepeated where more were captured.
    void end() const;
    [[nodiscard]] bool captures() const { return captures_; }
    /// How often it began.
    [[nodiscard]] std::uint64_t passes() const { return passes_; }

private:
    std::shared_ptr<const void> life_ = std::make_shared<char>();
    std::vector<Call> calls_{};
    std::size_t next_ = 0;
    std::uint64_t passes_ = 0;
    bool captures_ = true;
};

inline bool GraphCalls::add(const char* name, std::uint64_t hash) {
    if (captures_) {
        calls_.push_back({name, hash});
        return true;
    }
    const std::size_t n = next_++;
    const auto now = [&] { return "call " + std::to_string(n + 1) + ", '" + name + "', "; };
    if (n == calls_.size())
        throw NotRepeated(now() + "comes behind the " + std::to_string(n) +
                          " calls that were captured");
    if (std::string_view(calls_[n].name) != name)
        throw NotRepeated(now() + "was '" + calls_[n].name + "' when it was captured");
    if (calls_[n].hash != hash)
        throw NotRepeated(now() + "had other arguments when it was captured");
    return false;
}

/// The graph that the calling thread captures or replays; nullptr: none (StepGraphs).
inline thread_local GraphCalls* current_graph = nullptr;

/// Throws NotRepeated where the thread captures or replays a graph: `what` can't be a part of it.
void expect_no_graph(const char* what);

/// Returns call(), a status whose 0 means success; but while the thread replays a graph the call is
/// in it already: then 0, if `arguments` are those of the capture.
/// Errors: NotRepeated where they are not. `name` is a literal.
template <class Call, class... T>
auto queued_call(const char* name, Call call, const T&... arguments) -> decltype(call()) {
    if (current_graph == nullptr) return call();
    CallHash hash;
    (hash.add(arguments), ...);
    return current_graph->add(name, hash.value()) ? call() : decltype(call()){};
}

}  // namespace gx::cuda
