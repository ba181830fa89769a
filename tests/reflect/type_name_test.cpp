#include <gx/reflect/type_name.hpp>

#include <gtest/gtest.h>

namespace gx {
template <class...>
struct Holds {};
template <int, class>
struct Counts {};
struct plain {};
namespace inner {
struct Deep {};
}  // namespace inner
}  // namespace gx
namespace my_gx {
struct Theirs {};
}  // namespace my_gx
namespace other::gx {
struct Theirs {};
}  // namespace other::gx

namespace {

using gx::type_name;

TEST(TypeName, IsSpeltAsInAProgram) {
    EXPECT_EQ(type_name<gx::plain>(), "plain");
    EXPECT_EQ(type_name<gx::inner::Deep>(), "inner::Deep");
    EXPECT_EQ((type_name<gx::Holds<gx::Holds<gx::plain>>>()), "Holds<Holds<plain>>");
    EXPECT_EQ((type_name<gx::Counts<4, gx::inner::Deep>>()), "Counts<4, inner::Deep>");
    EXPECT_EQ(type_name<int>(), "int");
}
TEST(TypeName, WordsStayApart) {
    EXPECT_EQ(type_name<gx::Holds<unsigned char>>(), "Holds<unsigned char>");
}
TEST(TypeName, OnlyTheOutermostNamespaceOfItsOwnIsLeftOut) {
    EXPECT_EQ(type_name<my_gx::Theirs>(), "my_gx::Theirs");
    EXPECT_EQ(type_name<other::gx::Theirs>(), "other::gx::Theirs");
}

}  // namespace
