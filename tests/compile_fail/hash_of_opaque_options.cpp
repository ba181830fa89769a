// expect: gx: options of a type whose values can't be compared between runs
// expect: Fix: add 'std::uint64_t hash() const'
#include <gx/reflect/hash_fields.hpp>

class Least {
public:
    explicit Least(double area) : area_(area) {}

private:
    double area_;
};
struct Options {
    Least crop{0.5};
};
const std::uint64_t hash = gx::hash_fields(0, Options{});
