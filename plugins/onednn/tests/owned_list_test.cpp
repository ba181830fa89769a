#include <gx/onednn/detail/owned_list.hpp>

#include <stdexcept>  // runtime_error
#include <vector>     // addresses

#include <gtest/gtest.h>

namespace {

using gx::onednn::detail::OwnedList;

/// Counts those that live.
struct Counted {
    explicit Counted(int at_first) : value(at_first) {
        if (at_first < 0) throw std::runtime_error("refused");
        ++alive;
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    virtual ~Counted() { --alive; }
    int value;
    static inline int alive = 0;
};
struct Derived final : Counted {
    Derived() : Counted(7) {}
};

TEST(OwnedList, KeepsAddressesWhileItGrows) {
    OwnedList<Counted> list;
    std::vector<const Counted*> where;
    for (int i = 0; i < 100; ++i) where.push_back(&list.add(i));
    ASSERT_EQ(list.count(), 100);
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(&list[i], where[static_cast<std::size_t>(i)]);
        EXPECT_EQ(list[i].value, i);
    }
    EXPECT_EQ(&list.back(), where.back());
}

TEST(OwnedList, DeletesWhatItOwns) {
    {
        OwnedList<Counted> list;
        list.add(1);
        list.add<Derived>();
        list.widen(5);
        list.put(4, new Counted(2));
        EXPECT_EQ(Counted::alive, 3);
    }
    EXPECT_EQ(Counted::alive, 0);
}

TEST(OwnedList, HasEmptyPlaces) {
    OwnedList<Counted> list;
    EXPECT_FALSE(list.has(0));
    list.widen(3);
    EXPECT_EQ(list.count(), 3);
    EXPECT_FALSE(list.has(1));
    list.put(1, new Counted(1));
    EXPECT_TRUE(list.has(1));
    list.widen(2);  // never fewer
    EXPECT_EQ(list.count(), 3);
    EXPECT_TRUE(list.has(1));
}

TEST(OwnedList, LeaksNothingWhereAConstructorThrows) {
    {
        OwnedList<Counted> list;
        list.add(1);
        EXPECT_THROW(list.add(-1), std::runtime_error);
        EXPECT_FALSE(list.has(1));
        EXPECT_EQ(Counted::alive, 1);
    }
    EXPECT_EQ(Counted::alive, 0);
}

}  // namespace
