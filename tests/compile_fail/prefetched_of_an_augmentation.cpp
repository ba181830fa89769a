// expect: gx: not a Loader: this is an augmentation, which a loader does to its images.
#include <gx/loader/augment.hpp>
#include <gx/loader/prefetch.hpp>

gx::Prefetched<gx::Flip> train;
