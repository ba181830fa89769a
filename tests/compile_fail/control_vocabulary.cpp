// A right composition, spelt as the wrong ones here are: it must compile.
#include <gx/core/device.hpp>
#include <gx/reducer/concept.hpp>

static_assert(gx::explain_reducer<gx::archetype::Reducer>());
static_assert(gx::explain_device<gx::archetype::Device>());
