// expect: gx: a change of an ImageRecipe has no default, which Options::changes needs.
// near: Fix: give each of its members a default, as ColourJitter does.
#include <string_view>

#include <gx/image/codec/recipe.hpp>

struct Blur {
    explicit Blur(int radius) : radius(radius) {}
    static constexpr std::string_view stream = "augment.blur";
    void operator()(std::uint8_t*, gx::ImageSize, const gx::SampleDraws&) const {}
    int radius;
};

using Recipe = gx::ImageRecipe<gx::RandomResizedCrop, Blur>;
Recipe recipe{Recipe::Options{.changes = {Blur(3)}}};
