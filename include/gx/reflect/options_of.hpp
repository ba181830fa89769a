// options_of<P>: the options of a policy, or NoOptions.
#pragma once

namespace gx {

/// Options of a policy that has none.
struct NoOptions {
    constexpr bool operator==(const NoOptions&) const = default;
};

namespace detail {
template <class P>
struct OptionsOf {
    using type = NoOptions;
};
template <class P>
    requires requires { typename P::Options; }
struct OptionsOf<P> {
    using type = typename P::Options;
};
}  // namespace detail

template <class P>
using options_of = typename detail::OptionsOf<P>::type;

/// P from its options, or by default where it has none.
template <class P>
[[nodiscard]] constexpr P make_policy(const options_of<P>& options) {
    if constexpr (requires { typename P::Options; }) return P(options);
    else return P{};
}

}  // namespace gx
