// Accuracy: what a reducer promises of the values it returns.
#pragma once

namespace gx {

/// The accuracy class of a reducer, which decides how gx/testing checks its values.
enum class Accuracy : unsigned char {
    rounded,         ///< the mean, within a bound derived from its roundings
    error_feedback,  ///< what was applied plus what is kept equals what was given
    unbiased,        ///< the mean in expectation, as of stochastic rounding
    own_law          ///< another law, which its tests state
};

/// R::accuracy, else that of the reducer it wraps, else `rounded`.
template <class R>
[[nodiscard]] consteval Accuracy accuracy() {
    if constexpr (requires { Accuracy{R::accuracy}; }) return R::accuracy;
    else if constexpr (requires { typename R::wrapped; }) return accuracy<typename R::wrapped>();
    else return Accuracy::rounded;
}

}  // namespace gx
