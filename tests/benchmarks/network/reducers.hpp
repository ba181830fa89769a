// for_each_reducer: the reducers that are measured and predicted.
#pragma once

#include <string>  // names
#include <vector>  // names

#include <gx/halving_doubling/reducer.hpp>  // HalvingDoubling
#include <gx/parameter_server/reducer.hpp>  // ParameterServer
#include <gx/reducer/multi_ring.hpp>        // MultiRing
#include <gx/reducer/name.hpp>              // reducer_name
#include <gx/reducer/ring.hpp>              // Ring
#include <gx/trees/double_tree.hpp>         // DoubleTree

namespace gx::bench {

/// Calls f.operator()<R>() for each of them.
template <class F>
void for_each_reducer(F f) {
    f.template operator()<Ring<fp32>>();
    f.template operator()<Ring<fp16>>();
    f.template operator()<MultiRing<2, fp32>>();
    f.template operator()<MultiRing<4, fp32>>();
    f.template operator()<HalvingDoubling<fp32>>();
    f.template operator()<DoubleTree<4, fp32>>();
    f.template operator()<ParameterServer<fp32>>();
}

[[nodiscard]] inline std::vector<std::string> reducer_names() {
    std::vector<std::string> names;
    for_each_reducer([&]<class R> { names.push_back(reducer_name<R>()); });
    return names;
}

}  // namespace gx::bench
