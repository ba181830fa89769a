// expect: gx: this transport's 'working_on' takes no 'const gx::Operation&', so errors would lack
#include <gx/core/transport.hpp>

struct Link : gx::archetype::Transport {
    void working_on(int step);
};

void report(Link& link) { gx::working_on(link, {"all-reduce", 7, 3}); }
