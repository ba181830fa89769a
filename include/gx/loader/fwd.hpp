// The loaders of the core, with their defaults, declared once.
#pragma once

#include <gx/core/role.hpp>  // Header

namespace gx {

template <class... Augmentations>
class InMemory;
template <class L, int Depth = 2>
class Prefetched;
class SyntheticLoader;

namespace detail::role {  // what the error says where only this header is included
template <class... A>
struct Header<InMemory<A...>> {
    GX_DEFINED_IN("gx/loader/in_memory.hpp")
};
template <class L, int D>
struct Header<Prefetched<L, D>> {
    GX_DEFINED_IN("gx/loader/prefetch.hpp")
};
template <>
struct Header<SyntheticLoader> {
    GX_DEFINED_IN("gx/loader/synthetic.hpp")
};
}  // namespace detail::role

}  // namespace gx
