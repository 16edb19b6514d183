"""What the web application does, on txqueue."""

import asyncio
from datetime import UTC, datetime, timedelta

import newsletter
from psycopg import AsyncConnection

from txqueue.adapters.psycopg import aenqueue, aenqueue_many


async def main() -> None:
    async with await AsyncConnection.connect(newsletter.DSN) as connection:
        await connection.execute("insert into subscriber values ('ada')")
        await aenqueue(connection, newsletter.confirm.work("ada"))
        soon = datetime.now(UTC) + timedelta(seconds=2)
        await aenqueue(connection, newsletter.remind.work("ada"), not_before=soon)

        await aenqueue(connection, newsletter.send_issue.work("ada", issue=1))
        await aenqueue(connection, newsletter.bounce.work("eve"))
        for number in (7, 7, 7):
            await aenqueue(connection, newsletter.rebuild_list.work(number))
        await aenqueue_many(connection, [newsletter.charge.work(5, amount) for amount in (1, 2, 3)])
        await aenqueue(connection, newsletter.import_file.work("list.csv"))
        await aenqueue(connection, newsletter.render.work(1), priority=9)


asyncio.run(main())
