"""What the web application does, with procrastinate."""

import asyncio

import newsletter
import psycopg
from procrastinate.exceptions import AlreadyEnqueued


async def main():
    async with (
        newsletter.app.open_async(),
        await psycopg.AsyncConnection.connect(newsletter.DSN) as connection,
    ):
        await connection.execute("insert into subscriber values ('ada')")
        await newsletter.confirm.configure(connection=connection).defer_async(subscriber="ada")
        await newsletter.remind.configure(
            connection=connection, schedule_in={"seconds": 2}
        ).defer_async(subscriber="ada")
        await connection.commit()

        await newsletter.send_issue.defer_async(subscriber="ada", issue=1)
        await newsletter.bounce.defer_async(subscriber="eve")
        for number in (7, 7, 7):
            try:
                await newsletter.rebuild_list.defer_async(number=number)
            except AlreadyEnqueued:
                print("it will be rebuilt anyway")
        for amount in (1, 2, 3):
            await newsletter.charge.configure(lock="account 5").defer_async(
                account=5, amount=amount
            )
        await newsletter.import_file.defer_async(path="list.csv")
        await newsletter.render.configure(priority=5).defer_async(issue=1)


asyncio.run(main())
