// rethrow_named: an exception of a policy, with the place where it was thrown.
#pragma once

#include <cxxabi.h>  // __cxa_current_exception_type, __cxa_demangle

#include <cstdlib>      // free
#include <cstring>      // strstr
#include <exception>    // throw_with_nested
#include <memory>       // unique_ptr
#include <new>          // bad_alloc
#include <stdexcept>    // length_error
#include <string>       // the place
#include <string_view>  // sentences
#include <typeinfo>     // type_info

#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/error.hpp>  // Error, EndsRank

namespace gx::detail {

/// In a handler: whether what it handles ends a fiber (Boost.Context) or a thread (pthread_cancel).
GX_COLD [[nodiscard]] inline bool is_forced_unwind() {
    const std::type_info* type = abi::__cxa_current_exception_type();
    return type == nullptr || std::strstr(type->name(), "forced_unwind") != nullptr;
}

/// The name of a type as C++ writes it.
GX_COLD [[nodiscard]] inline std::string readable_name(const std::type_info& type) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> name(
        abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
    return name ? name.get() : type.name();
}

/// In a handler of what is no std::exception: "an exception of type int, which is no
/// std::exception".
GX_COLD [[nodiscard]] inline std::string name_of_exception() {
    const std::type_info* type = abi::__cxa_current_exception_type();
    if (type == nullptr) return "an exception that C++ did not throw";
    return "an exception of type " + readable_name(*type) + ", which is no std::exception";
}

/// In a handler: throws what it handles. What is no gx::Error becomes one, "WHERE: what()", or with
/// name_of_exception(), with the exception nested in it; what ends a fiber or a rank stays as it
/// is.
GX_COLD [[noreturn]] inline void rethrow_named(const std::string& where) {
    try {
        throw;
    } catch (const Error&) {
        throw;
    } catch (const EndsRank&) {
        throw;
    } catch (const std::exception& e) {
        const std::string_view text = e.what();
        std::throw_with_nested(
            Error(where + ": " + (text.empty() ? readable_name(typeid(e)) : std::string(text))));
    } catch (...) {
        if (is_forced_unwind()) throw;
        std::throw_with_nested(Error(where + ": " + name_of_exception()));
    }
}

/// Whether it has "rank 3", or "ranks 3".
GX_COLD [[nodiscard]] inline bool names_a_rank(std::string_view sentence) {
    for (const std::string_view word : {"rank ", "ranks "})
        for (auto at = sentence.find(word); at != sentence.npos; at = sentence.find(word, at + 1)) {
            const auto behind = sentence.substr(at + word.size());
            const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
            if ((at == 0 || !is_letter(sentence[at - 1])) && !behind.empty() && behind[0] >= '0' &&
                behind[0] <= '9')
                return true;
        }
    return false;
}
/// Whether a container of libstdc++ threw it, for more elements than max_size().
GX_COLD [[nodiscard]] inline bool is_of_container(const std::length_error& e) {
    const std::string_view text = e.what();
    for (const std::string_view of : {"vector::", "basic_string::", "cannot create std::"})
        if (text.starts_with(of)) return true;
    return false;
}

/// In a handler: the same, and a plain gx::Error whose sentence names no rank gets the place too.
GX_COLD [[noreturn]] inline void rethrow_named_throughout(const std::string& where) {
    try {
        throw;
    } catch (const Error& e) {
        const std::string sentence = e.what();
        if (typeid(e) != typeid(Error) || names_a_rank(sentence)) throw;
        std::throw_with_nested(Error(where + ": " + sentence));
    } catch (...) {
        rethrow_named(where);
    }
}

/// Whether `e` was made of a failed allocation by rethrow_named().
GX_COLD [[nodiscard]] inline bool is_of_memory(const Error& e) {
    try {
        std::rethrow_if_nested(e);
    } catch (const std::bad_alloc&) {
        return true;
    } catch (const std::length_error& too_long) {
        return is_of_container(too_long);
    } catch (...) {
    }
    return false;
}

}  // namespace gx::detail
