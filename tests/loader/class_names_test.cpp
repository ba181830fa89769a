#include <gx/loader/class_names.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace testing_support;
using testing::ElementsAre, testing::IsEmpty;

TEST(ClassNames, AreTheLinesOfAFile) {
    const Folder folder;
    write_text(folder / "names",
               "cat\r\n\n hot dog \n\xc3\xa9"
               "clair");
    EXPECT_THAT(gx::read_class_names(folder / "names"), ElementsAre("cat", " hot dog ",
                                                                    "\xc3\xa9"
                                                                    "clair"));
    EXPECT_THAT(gx::class_names_in(""), IsEmpty());
    EXPECT_THAT(gx::class_names_in("\r\n\n"), IsEmpty());
    EXPECT_THAT(gx::class_names_in("a"), ElementsAre("a"));
    EXPECT_TRUE(holds(error_of([&] { (void)gx::read_class_names(folder / "none"); }), "none'"));
}

}  // namespace
