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
};

}  // namespace gx::testing
