// stable_sort: std::stable_sort, which Clang calls deprecated inside of libstdc++ 12.
#pragma once

#include <algorithm>  // sort
#include <cstddef>    // size_t
#include <numeric>    // iota
#include <utility>    // move
#include <vector>     // what is sorted

namespace gx::tools {

/// Sorts by `less`; equal values stay in their order.
template <class T, class Less>
void stable_sort(std::vector<T>& values, const Less& less) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return less(values[a], values[b]) || (!less(values[b], values[a]) && a < b);
    });
    std::vector<T> sorted;
    sorted.reserve(values.size());
    for (const std::size_t i : order) sorted.push_back(std::move(values[i]));
    values = std::move(sorted);
}

}  // namespace gx::tools
