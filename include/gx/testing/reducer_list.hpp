// ReducerList<R...>: the reducers of a plugin that the conformance kit proves.
#pragma once

#include <cstddef>  // size_t

#include <gx/reducer/concept.hpp>  // explain_reducer

namespace gx::testing {

/// A list of reducer types. `plugins/NAME/tests/reducers.hpp` names the plugin's:
///
///     using ReducersUnderTest = gx::testing::ReducerList<gx::Tree<gx::fp32>, gx::Tree<gx::fp16>>;
template <class... R>
struct ReducerList {
    static_assert((explain_reducer<R>() && ...));
    static constexpr std::size_t count = sizeof...(R);

    /// Calls f.operator()<R>() for each of them, in order.
    static void for_each(auto f) { (f.template operator()<R>(), ...); }
    /// Template<R...>
    template <template <class...> class Template>
    using as = Template<R...>;
    /// This list, and another one behind it.
    template <class... Others>
    static ReducerList<R..., Others...> with(ReducerList<Others...>);
};

namespace detail {
ReducerList<> joined();
template <class First>
First joined(First);
template <class First, class Second, class... Rest>
auto joined(First, Second second, Rest... rest) {
    return joined(decltype(First::with(second))(), rest...);
}
}  // namespace detail

/// The reducers of several lists, in their order.
template <class... Lists>
using JoinedLists = decltype(detail::joined(Lists()...));

}  // namespace gx::testing
