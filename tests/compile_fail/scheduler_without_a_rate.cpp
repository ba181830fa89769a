// expect: gx: not a Scheduler: no 'float rate(gx::Step) const'
#include <gx/scheduler/concept.hpp>

struct Rateless {
    struct Options {};
    explicit Rateless(Options);
};
static_assert(gx::explain_scheduler<Rateless>());
