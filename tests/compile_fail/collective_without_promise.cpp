// expect: gx: a collective without a promise
#include <gx/collective/exchange.hpp>

struct Idle {
    [[nodiscard]] int ranks() const { return 1; }
    [[nodiscard]] int chunks() const { return 1; }
    [[nodiscard]] int steps() const { return 0; }
    [[nodiscard]] gx::Exchange exchange(int, int) const { return {}; }
};

static_assert(gx::explain_promise<Idle>());
