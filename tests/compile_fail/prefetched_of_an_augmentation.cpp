// expect: gx: this is an augmentation where a policy of a Trainer is expected.
#include <gx/loader/augment.hpp>
#include <gx/loader/prefetch.hpp>

gx::Prefetched<gx::Flip> train;
