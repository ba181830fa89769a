// rethrow_named: an exception of a policy, with the place where it was thrown.
#pragma once

#include <exception>  // throw_with_nested
#include <new>        // bad_alloc
#include <stdexcept>  // length_error
#include <string>     // the place

#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/error.hpp>  // Error

namespace gx::detail {

/// In a handler: throws what it handles. A std::exception that is no gx::Error becomes one,
/// "WHERE: what()", with the exception nested in it; what ends a fiber, or is no std::exception,
/// stays as it is.
GX_COLD [[noreturn]] inline void rethrow_named(const std::string& where) {
    try {
        throw;
    } catch (const Error&) {
        throw;
    } catch (const std::exception& e) {
        std::throw_with_nested(Error(where + ": " + e.what()));
    }
}

/// Whether `e` was made of a failed allocation by rethrow_named().
GX_COLD [[nodiscard]] inline bool is_of_memory(const Error& e) {
    try {
        std::rethrow_if_nested(e);
    } catch (const std::bad_alloc&) {
        return true;
    } catch (const std::length_error&) {  // more elements than a vector counts
        return true;
    } catch (...) {
    }
    return false;
}

}  // namespace gx::detail
